# What the scripts of this folder share: steps with a log each, and one verdict at the end.
# Sourced by bash; not run.
# shellcheck shell=bash

ci_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ci_dry=no
ci_artefacts=${CI_ARTEFACTS:-$ci_top/ci-artefacts}
ci_failed=()
ci_name=$(basename "$0")
ci_python=${VNETCI_PYTHON:-$ci_top/.venv/bin/python}

# ci_usage: the comment at the top of the script is its help.
ci_usage() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
}

# ci_options ARG...: --dry-run, --artefacts DIR, --help; what is left is in ci_rest.
ci_options() {
    ci_rest=()
    while [ $# -gt 0 ]; do
        case $1 in
            --dry-run) ci_dry=yes ;;
            --artefacts)
                [ $# -gt 1 ] || ci_die "--artefacts needs a folder"
                ci_artefacts=$2
                shift
                ;;
            --help | -h)
                ci_usage
                exit 0
                ;;
            *) ci_rest+=("$1") ;;
        esac
        shift
    done
    [ "$ci_dry" = yes ] || mkdir -p "$ci_artefacts"
    cd "$ci_top" || exit 2
}

ci_die() {
    echo "$ci_name: $*" >&2
    exit 2
}

ci_need_none_left() {
    [ ${#ci_rest[@]} -eq 0 ] || ci_die "unknown option '${ci_rest[0]}'; try --help"
}

# ci_step NAME COMMAND...: run a command with its output in NAME.log; a failure is told at the end,
# so that one run shows everything that is wrong.
ci_step() {
    local name=$1 began=$SECONDS status=0
    shift
    if [ "$ci_dry" = yes ]; then
        printf '%s:' "$name"
        printf ' %q' "$@"
        echo
        return 0
    fi
    echo "== $name"
    "$@" 2>&1 | tee "$ci_artefacts/$name.log" || status=${PIPESTATUS[0]}
    echo "== $name: status $status after $((SECONDS - began)) s"
    printf '%s\t%s\t%s\n' "$name" "$status" "$((SECONDS - began))" >>"$ci_artefacts/steps.tsv"
    [ "$status" -eq 0 ] || ci_failed+=("$name")
    return "$status"
}

# ci_note TEXT: something that is no failure, and that a reader must see.
ci_note() {
    echo "== note: $*"
    [ "$ci_dry" = yes ] || echo "$*" >>"$ci_artefacts/notes.txt"
}

# ci_results: an empty folder for runs outside of the artefacts; it is removed at the end.
ci_results() {
    if [ "$ci_dry" = yes ]; then
        ci_runs=RESULTS
        return
    fi
    ci_runs=$(mktemp -d "${TMPDIR:-/tmp}/vnetperf-$ci_name.XXXXXX")
    trap 'rm -rf -- "$ci_runs"' EXIT
}

# ci_new_run FOLDER BEFORE: whether a run was begun there since `latest` was BEFORE. Without this a
# run that never began would be judged by the one of yesterday.
ci_new_run() {
    local now
    now=$(readlink "$1/latest" || true)
    [ -n "$now" ] && [ "$now" != "$2" ] && echo "run: $1/$now" && return
    echo "no run was begun in $1" >&2
    return 1
}

# ci_keep RUN: the run's reports as run/ of the artefacts; with VNETCI_REDACT=yes a redacted copy.
ci_keep() {
    if [ "${VNETCI_REDACT:-no}" = no ]; then
        ci_step keep ci/keep_run "$1" "$ci_artefacts/run"
        return
    fi
    [ "$ci_dry" = yes ] || rm -rf -- "$ci_artefacts/run"
    ci_step redact "$ci_python" -m vnetperf.cli redact "$1" -o "$ci_artefacts/run" || return 1
    [ "$ci_dry" = yes ] || chmod -R a+rX "$ci_artefacts/run"
}

# ci_end: the verdict.
ci_end() {
    [ "$ci_dry" = no ] || return 0
    if [ ${#ci_failed[@]} -gt 0 ]; then
        echo "$ci_name: failed: ${ci_failed[*]}; logs are in $ci_artefacts" >&2
        exit 1
    fi
    echo "$ci_name: all is well; logs are in $ci_artefacts"
}

# ci_keyword NAME...: what pytest's -k takes for any of the names.
ci_keyword() {
    local text=$1
    shift
    for name in "$@"; do text+=" or $name"; done
    echo "$text"
}
