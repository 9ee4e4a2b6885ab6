from __future__ import annotations

import pytest
from pydantic import ValidationError

from vnetperf.model.options import QueuePin, SwitchOptions


def test_only_what_is_set_is_given() -> None:
    assert SwitchOptions(name="x", description="y", mode="bridge").given() == {}
    assert SwitchOptions(mtu=9000, offloads=False).given() == {"mtu": 9000, "offloads": False}


@pytest.mark.parametrize("descriptors", [63, 1000, 65536])
def test_descriptors_are_powers_of_two(descriptors: int) -> None:
    with pytest.raises(ValidationError):
        SwitchOptions(rx_descriptors=descriptors)
    assert SwitchOptions(rx_descriptors=1024).rx_descriptors == 1024


def test_queues_are_pinned_only_where_there_are_some() -> None:
    pin = QueuePin(port="phy0", queue=1, worker=1)
    with pytest.raises(ValidationError, match="rx_queues is 1"):
        SwitchOptions(rxq_affinity=(pin,), workers=2)
    with pytest.raises(ValidationError, match="workers is 1"):
        SwitchOptions(rxq_affinity=(pin,), rx_queues=2)
    assert SwitchOptions(rxq_affinity=(pin,), rx_queues=2, workers=2)
