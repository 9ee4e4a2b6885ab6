# Runs in the lab, in a shared folder, and tells what it finds: one `name: value` a line.
# Arguments: backends whose contract is tried, "network:NAME" for one of pods.
backends="$*"
say() { printf '%s: %s\n' "$1" "$2"; }
nic() { ls "/sys/bus/pci/devices/$1/net"; }
tester="0000:21:00.0 0000:22:00.0"
dut="0000:41:00.0 0000:42:00.0"

say nodes "$(cat /sys/devices/system/node/online)"
say node0 "$(cat /sys/devices/system/node/node0/cpulist)"
say node1 "$(cat /sys/devices/system/node/node1/cpulist)"
for n in 0 1; do
    pages=/sys/devices/system/node/node$n/hugepages/hugepages-2048kB/nr_hugepages
    echo 64 >$pages && say "hugepages$n" "$(cat $pages)"
done
for m in openvswitch vhost_net tun macvtap ipvlan vfio_pci vfio_iommu_type1 igb igbvf veth bridge \
    af_packet vxlan ip_gre geneve sch_ingress act_mirred gtp pktgen kvm_amd kvm_intel; do
    modprobe -q "$m" 2>/dev/null || [ -d /sys/module/$m ] || echo "no-module: $m"
done
for f in /dev/vhost-net /dev/net/tun /dev/vfio/vfio; do [ -c $f ] || echo "no-device: $f"; done
for address in $tester $dut; do
    device=/sys/bus/pci/devices/$address
    say "nic $address" "$(basename "$(readlink $device/driver)") node $(cat $device/numa_node)"
done

# Who else uses a NIC: what this machine's kernel has and others lack. Its own loading of modules looks
# for them outside of the lab.
modprobe -a veth xsk_diag pppoe nf_tables nf_flow_table nf_flow_table_inet mpls_router pktgen
(cd "$PYTHONPATH" && python -m tests.host.foreign)

# Cables: each pair in two namespaces, so that nothing but the cable can carry the ping.
n=0
for pair in "0000:21:00.0 0000:41:00.0" "0000:22:00.0 0000:42:00.0"; do
    set -- $pair
    ip netns add a$n && ip netns add b$n
    one=$(nic "$1") other=$(nic "$2")
    ip link set "$one" netns a$n && ip link set "$other" netns b$n
    ip -n a$n addr add 192.0.2.1/30 dev "$one" && ip -n a$n link set "$one" up
    ip -n b$n addr add 192.0.2.2/30 dev "$other" && ip -n b$n link set "$other" up
    i=0
    while [ $i -lt 60 ] && ! ip netns exec a$n busybox ping -c 1 -W 1 192.0.2.2 >/dev/null; do
        i=$((i + 1))
    done
    [ $i -lt 60 ] && say "cable$n" carries || say "cable$n" "carries nothing"
    ip netns del a$n && ip netns del b$n
    n=$((n + 1))
done
i=0
while [ $i -lt 50 ] && [ -z "$(nic 0000:42:00.0 2>/dev/null)" ]; do sleep 0.1; i=$((i + 1)); done

# SR-IOV: functions, groups, and a driver for user space.
for address in $dut; do
    device=/sys/bus/pci/devices/$address
    echo 2 >$device/sriov_numvfs
    for vf in "$device"/virtfn*; do
        function=$(basename "$(readlink "$vf")")
        at=/sys/bus/pci/devices/$function
        group=$(basename "$(readlink $at/iommu_group)")
        echo vfio-pci >$at/driver_override
        [ ! -e $at/driver ] || echo "$function" >$at/driver/unbind
        echo "$function" >/sys/bus/pci/drivers_probe
        say "vf $address" "$(basename "$(readlink $at/driver)") $(test -c "/dev/vfio/$group" && echo usable)"
    done
done

# What needs this kernel keeps its contract: Open vSwitch's module, NICs with virtual functions. A test
# of the kit takes about a minute here; so what backends do first and last is tried: that every frame is
# forwarded and counted, and that nothing is left behind.
for n in 0 1; do
    echo 0 >/sys/devices/system/node/node$n/hugepages/hugepages-2048kB/nr_hugepages
done
for address in $dut; do echo 0 >/sys/bus/pci/devices/$address/sriov_numvfs; done
log=$(pwd)/contract.log
contract() { # what is said of it, the names that are required to run, the class, and a test of it
    (cd "$PYTHONPATH" && VNETPERF_REQUIRE=$2 python -m pytest -v -p no:cacheprovider \
        -p no:hypothesispytest --noconftest --durations=0 "tests/contract/$3" -k "$4") \
        >>"$log" 2>&1 </dev/null
    say "contract $1" "$(tail -n 1 "$log")"
}
for backend in $backends; do
    name=${backend#network:}
    case $backend in
        network:*)
            one="test_all_frames_are_carried_and_counted and other"
            # Of "ovs_flat_kernel" and "ipvlan_l3" the mode is no part of the network's name.
            network=${name%_kernel} && network=${network%_l3}
            contract "$backend" "$network" "test_networks.py::Test_$name" "$one"
            ;;
        *)
            one="test_all_frames_are_forwarded_and_counted and phy2phy"
            contract "$backend" "$name" "test_vswitches.py::Test_$name" "$one"
            ;;
    esac
done

say cwd "$(pwd)"
say input "$(cat)"
say python "$(python -c 'import sys; print(sys.executable)')"
say testbed "$VNETPERF_TESTBED"
say facts "$(python -c 'from vnetperf.host.facts.hardware import collect; print(collect()["virtual_lab"])')"
echo "from the lab" >shared-file
touch /etc/vnetperf-lab-was-here && say etc written
echo "a complaint" >&2
exit 42
