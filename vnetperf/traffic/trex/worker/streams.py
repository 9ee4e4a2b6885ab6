"""Descriptions of streams as objects of TRex's client."""

from __future__ import annotations

import base64
from typing import Any

#: Octets of a variable and of what is written into the frame, at most, by one instruction.
WORD = 4


def build(api: Any, stream: dict[str, Any]) -> Any:
    """One stream.

    Args:
        api: The module `trex.stl.api`.
        stream: What `vnetperf.traffic.trex.streams.describe` made.

    Returns:
        An `STLStream`.
    """
    probe = stream.get("probe")
    # Whole frames are given, so nothing is to be put in for their addresses, nor their FCS cut.
    packet = api.STLPktBuilder(
        pkt_buffer=base64.b64decode(stream["template"]),
        vm=api.STLScVmRaw(instructions(api, stream)) if stream["variables"] else None,
        remove_fcs=False,
    )
    return api.STLStream(
        packet=packet,
        mode=api.STLTXSingleBurst(total_pkts=stream["frames"], pps=stream["pps"]),
        flow_stats=None if probe is None else api.STLFlowLatencyStats(pg_id=probe),
        isg=stream.get("after_us", 0.0),
        mac_src_override_by_pkt=True,
        mac_dst_override_mode=api.STLStreamDstMAC_PKT,
    )


def instructions(api: Any, stream: dict[str, Any]) -> list[Any]:
    """What changes a frame before it is sent.

    Args:
        api: The module `trex.stl.api`.
        stream: A description.

    Returns:
        Instructions of TRex's field engine.
    """
    made: list[Any] = []
    for variable in stream["variables"]:
        name = variable["name"]
        made.append(
            api.STLVmFlowVar(
                name=name,
                size=variable["size"],
                min_value=variable["first"],
                init_value=variable["first"],
                max_value=variable["last"],
                step=variable["step"],
                op="random" if variable["random"] else "inc",
            )
        )
        if variable["mask"] is None:
            made.append(api.STLVmWrFlowVar(fv_name=name, pkt_offset=variable["offset"]))
        else:
            made.append(
                api.STLVmWrMaskFlowVar(
                    fv_name=name,
                    pkt_offset=variable["offset"],
                    pkt_cast_size=WORD,
                    mask=variable["mask"],
                    shift=variable["shift"],
                )
            )
    made += [api.STLVmFixIpv4(offset=offset) for offset in stream["ipv4"]]
    made += [_layer4(api, *one) for one in stream["layer4"]]
    return made


def _layer4(api: Any, kind: str, l3_offset: int, l4_offset: int) -> Any:
    fix = api.CTRexVmInsFixHwCs
    l4_type = fix.L4_TYPE_TCP if kind == "tcp" else fix.L4_TYPE_UDP
    return api.STLVmFixChecksumHw(l3_offset=l3_offset, l4_offset=l4_offset, l4_type=l4_type)
