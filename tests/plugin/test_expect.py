"""`--expect FILE`: a case passes or fails by it, and says number, interval and bound."""

from __future__ import annotations

import pytest

from tests.plugin.conftest import Site

PVP = ("-k", "pvp_dpdk", "--frame-sizes", "64")
TWO = ("-k", "phy2phy_dpdk or pvp_dpdk", "--frame-sizes", "64")


def expect(site: Site, text: str) -> tuple[str, str]:
    (site.path / "expect.toml").write_text(text)
    return "--expect", "expect.toml"


def one(**keys: object) -> str:
    lines = (f"{key} = {str(value).lower()}" for key, value in keys.items() if value is not None)
    return "\n".join(["[[expect]]", 'scenario = "pvp_dpdk"', *lines, ""])


def test_a_case_passes_when_its_number_is_good(site: Site) -> None:
    result = site.run(*PVP, *expect(site, one(at_least=1e6)))
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_a_case_fails_with_number_interval_and_bound(site: Site) -> None:
    result = site.run(*PVP, *expect(site, one(at_least=2e6) + 'why = "promised in the datasheet"'))
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "*pvp_dpdk, throughput, 64 octets, ndr is 1.3* Mfps [[]1.3* Mfps .. 1.4* Mfps]: below "
            "the expected 2.000 Mfps; promised in the datasheet (expect.toml: expect.0)*"
        ]
    )


def test_scenarios_are_held_against_each_other_at_the_end(site: Site) -> None:
    bad = one(at_least=3) + 'of_scenario = "phy2phy_dpdk"\n'
    good = one(at_least=0.5) + 'of_scenario = "phy2phy_dpdk"\n'
    result = site.run(*TWO, *expect(site, bad + good))
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "FAILED: pvp_dpdk*ratio 1 [[]0.9*.. 1.0*: below the expected 3 times it*expect.0*",
            "met: *as expected, at least 0.5 times it*expect.1*",
        ]
    )
    assert site.run(*TWO, *expect(site, good)).ret == 0


def test_what_has_no_other_side_is_said_and_fails_nothing(site: Site) -> None:
    text = one(at_least=3) + 'of_scenario = "phy2phy_dpdk"\n'
    result = site.run(*PVP, *expect(site, text))
    assert result.ret == 0
    result.stdout.fnmatch_lines(["not judged: pvp_dpdk*no such number of phy2phy_dpdk*"])


@pytest.mark.slow
def test_a_stored_run_is_a_baseline(site: Site) -> None:
    site.run(*PVP)
    (folder,) = site.folders
    folder.rename(site.path / "baseline")
    of = 'of_run = "baseline"\n'
    assert site.run(*PVP, *expect(site, one(at_least=0.95) + of)).ret == 0
    result = site.run(*PVP, *expect(site, one(at_least=1.5) + of))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ratio 1 *: below the expected 1.5 times it*"])
    sizes = ("-k", "pvp_dpdk", "--frame-sizes", "512")
    site.run(*sizes, *expect(site, one(at_least=0.9) + of)).assert_outcomes(failed=1)


def test_a_stored_run_that_is_not_comparable_is_no_baseline(site: Site) -> None:
    site.run(*PVP, "--rules", "stream")
    (folder,) = site.folders
    folder.rename(site.path / "baseline")
    of = 'of_run = "baseline"\n'
    result = site.run(*PVP, *expect(site, one(at_least=0.95) + of))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED: *not comparable with baseline: rules is port here*"])
    assert site.run(*PVP, *expect(site, one(at_least=0.95) + of + "across = true\n")).ret == 0


def test_rounds_are_judged_together(site: Site) -> None:
    text = one(at_least=2e6)
    result = site.run(*PVP, "--repeat", "3", *expect(site, text))
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED: *n = 3: below the expected 2.000 Mfps*"])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (one(atleast=3), "*expect.toml: expect.0.atleast: unknown key, did you mean 'at_least'?*"),
        (one(), "*expect.toml: expect.0: at_least or at_most is missing*"),
        (one(at_least=3, at_most=2), "*expect.0: at_least 3 is above at_most 2*"),
        (one(at_least="many"), "*not valid TOML*"),
        (one(at_least='"many"'), "*expect.0.at_least: 'many' is not a number*"),
        (one(at_least=1, test='"speed"'), "*expect.0.test: 'speed' is not *"),
        (one(at_least=1, test='"transfers"'), "*expect.0: number is missing: transfers have*"),
        (
            one(at_least=1, test='"pods"', number='"pod start"', frame_sizes="[64]"),
            "*expect.0: pods have no frames*",
        ),
        (one(at_least=1, frame_sizes='["big"]'), "*expect.0: frame_sizes has 'big'*"),
        (one(at_least=1).replace("pvp_dpdk", "pvp_dppk"), "*expect.0.scenario: no scenario*"),
        (one(at_least=1, of_scenario='"pvp_x"'), "*expect.0.of_scenario: no scenario*"),
        (one(at_least=1, of_run='"gone"'), "*expect.0.of_run: the stored run cannot be read*"),
        ("", "*expect.toml: expect: *"),
        (one(at_least="nan"), "*expect.0.at_least*"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_is_deployed(
    site: Site, text: str, told: str
) -> None:
    result = site.run(*PVP, *expect(site, text))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {told}"])
    assert not site.calls()
    assert not site.folders


def test_no_file_is_said(site: Site) -> None:
    result = site.run(*PVP, "--expect", "nothing.toml")
    result.stderr.fnmatch_lines(["ERROR: *nothing.toml: cannot be read*"])
    assert not site.calls()


@pytest.mark.parametrize("option", ["-x", "--maxfail=2"])
def test_a_run_that_ends_at_a_failure_lacks_results(site: Site, option: str) -> None:
    text = one(at_least=2e6)
    result = site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", option, *expect(site, text))
    result.assert_outcomes(failed=1 if option == "-x" else 2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    lacks = any("interrupted" in warning for warning in site.results()["warnings"])
    assert lacks == (option == "-x")


@pytest.mark.slow
def test_workers_judge_their_cases_and_the_controller_the_rest(site: Site) -> None:
    text = one(at_least=1e6) + one(at_least=3) + 'of_scenario = "phy2phy_dpdk"\n'
    result = site.run(*TWO, "-n", "2", *expect(site, text))
    result.assert_outcomes(passed=2)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["FAILED: pvp_dpdk*below the expected 3 times it*"])


def test_a_resumed_run_expects_what_it_did(site: Site) -> None:
    """Also with cases named anew, unless it is to expect nothing."""
    assert site.run(*PVP, *expect(site, one(at_least=2e6))).ret == 1
    again = (*PVP, "--resume", "results/latest")
    result = site.run(*again)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*: below the expected 2.000 Mfps*"])
    (site.path / "expect.toml").unlink()
    result = site.run(*again)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --resume *: its command has --expect expect.toml, which *"]
    )
    site.run(*again, "--expect", "").assert_outcomes(passed=1)


def test_a_resumed_run_leaves_out_what_it_did(site: Site) -> None:
    """What the ini file leaves out is left out of both commands."""
    ini = site.path / "tox.ini"
    ini.write_text("[pytest]\naddopts = --deselect nowhere.py --ignore build\n")
    (site.path / "test_more.py").write_text((site.path / "test_rfc2544.py").read_text())
    only = (
        "--ignore",
        "test_more.py",
        "--deselect",
        "test_rfc2544.py::test_throughput[pvp_dpdk-512]",
    )
    found = site.run("-k", "pvp_dpdk", "--frame-sizes", "64,512", *only)
    found.assert_outcomes(passed=1, deselected=1)
    site.run("--resume", "results/latest").assert_outcomes(passed=1, deselected=1)
