from vnetperf.report.summary import flatten_facts, is_missing, missing_values


def test_every_unknown_value_is_found_with_its_place(results):
    found = {u.where: u.what for u in missing_values(results)}
    assert found["environment.cpu.microcode"].startswith("unknown: /proc/cpuinfo")
    assert found["environment.bios"].startswith("not measured: dmidecode")
    assert found["pvp_dpdk.facts.vswitch.compiler"] == "unknown: the binary does not say"
    assert found["pvp_dpdk.throughput[1518]"].startswith("not measured: the path check")
    assert found["calibrations[memif][1518].smallest_burst_gap_ns"].startswith("not measured")


def test_what_is_missing_altogether_is_unknown_too(results):
    run = results.run.model_copy(update={"isolation": "", "ended": ""})
    changed = results.model_copy(update={"run": run, "calibrations": (), "environment": {}})
    found = {u.where for u in missing_values(changed)}
    assert {"run.isolation", "run.ended", "calibrations", "environment"} <= found


def test_only_a_value_that_says_so_is_unknown():
    assert is_missing("unknown: no such file")
    assert is_missing("Not measured")
    assert not is_missing("an unknown vendor")
    assert not is_missing("unknown vendor 0x8086")
    assert not is_missing(0)


def test_facts_flatten_into_rows():
    tree = {
        "launch": ["ovs-vswitchd", "unix:/a b", "--pidfile"],
        "cpus": [1, 2],
        "ports": [{"name": "phy0"}, {"name": "phy1"}],
        "smt": False,
        "empty": {},
    }
    assert dict(flatten_facts(tree)) == {
        "launch": "ovs-vswitchd 'unix:/a b' --pidfile",
        "cpus": "1, 2",
        "ports[0].name": "phy0",
        "ports[1].name": "phy1",
        "smt": "no",
        "empty": "none",
    }
