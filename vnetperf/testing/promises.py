"""Contract kit: what a vSwitch says of itself, asked before anything is deployed."""

from __future__ import annotations

import pytest

from vnetperf.model.errors import CapabilityError
from vnetperf.model.machine import MachineFacts
from vnetperf.model.options import SwitchOptions
from vnetperf.model.scenario import STANDARD_FRAME_SIZE
from vnetperf.testbed.plan import make_plan
from vnetperf.testing.cases import plain
from vnetperf.testing.contract import Contract
from vnetperf.testing.options import NEEDED, OPTIONS
from vnetperf.testing.stage import Stage
from vnetperf.vswitches.base import VSwitch, VSwitchCapabilities


class Promises(Contract):
    """Its capabilities are true to their form, and what it does not promise is refused."""

    def test_says_what_it_can(self) -> None:
        """Capabilities are complete, and name only what there is."""
        backend, can = self.backend, self.backend.capabilities
        assert issubclass(backend, VSwitch)
        assert backend.name == self.vswitch, "its name is the one it is registered by"
        assert isinstance(can, VSwitchCapabilities)
        assert can.rules, "it forwards by something"
        assert can.forwarding, "it forwards at some layer"
        assert can.wires or can.attachments, "nothing can be plugged in"
        unknown = set(can.options) - set(SwitchOptions.model_fields)
        assert not unknown, f"no such options: {', '.join(sorted(unknown))}"
        assert "mode" not in can.options, "modes are named in `modes`"
        assert len(set(can.modes)) == len(can.modes)
        assert can.max_frame_size >= STANDARD_FRAME_SIZE
        assert plain(can), "no deployment can be made with these capabilities"

    def test_says_what_is_missing_on_a_bare_machine(self, stage: Stage) -> None:
        """On a machine with nothing, `missing` answers in one sentence and does not raise."""
        for case in plain(self.backend.capabilities):
            answer = self.backend.missing(MachineFacts(cpus=()), stage.scenario(case))
            assert isinstance(answer, str)
            assert "\n" not in answer

    @pytest.mark.parametrize("option", OPTIONS)
    def test_an_option_it_does_not_declare_is_refused(self, option: str, stage: Stage) -> None:
        """Before anything is deployed, in one message that names the option."""
        can = self.backend.capabilities
        if option in can.options:
            pytest.skip(f"{self.vswitch} declares {option}")
        needed = NEEDED.get(option, ())
        settings = tuple(f"{name}={OPTIONS[name]}" for name in (*needed, option))
        scenario = stage.scenario(plain(can)[0], set=settings)
        root = stage.facts.model_copy(update={"is_root": True})
        with pytest.raises(CapabilityError) as refusal:
            make_plan(scenario, stage.testbed, root)
        assert any(f"has no option {name}" in str(refusal.value) for name in (*needed, option))
