#!/usr/bin/env python3
"""Runs a command under mpirun on hosts of its own: network namespaces of this machine, whose only link is slow.

    tools/separate_hosts.py --hosts 4 --delay 1 --rate 100 -- build/pumice bench model.gguf --batch 1,16

Each host has a network namespace, a host name and a TUN device. This program carries packets between the devices: each
leaves its host at --rate Mbit/s, and arrives --delay milliseconds after that, so that a message and its answer take twice
as long. The kernel's netem would do the same, where there is one. Rank 0 is on the first host, and one rank on each.
--cores pins rank N to processor N modulo their number. For root, on Linux, with Open MPI (ssh is not needed).
"""
import argparse
import fcntl
import heapq
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

NETWORK = "10.77.0."
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
MTU = 1500

# Open MPI calls this as it would ssh: the host, then the words of a command for that host's shell.
AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec "pumice-$host" unshare --uts sh -c "hostname host-$host; $*"
"""


def run(*command):
    subprocess.run(command, check=True)


def open_device(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


class Hosts:
    """Network namespaces, each with one TUN device; removed at the end."""

    def __init__(self, count):
        self.addresses = [f"{NETWORK}{number + 1}" for number in range(count)]
        self.devices = []

    def __enter__(self):
        for number, address in enumerate(self.addresses):
            name, space = f"pumice{number}", f"pumice-{address}"
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)
            run("ip", "netns", "add", space)
            self.devices.append(open_device(name))
            run("ip", "link", "set", name, "netns", space)
            inside = ["ip", "-n", space]
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "addr", "add", f"{address}/24", "dev", name)
            run(*inside, "link", "set", name, "mtu", str(MTU), "txqueuelen", "10000", "up")
        return self

    def __exit__(self, *_):
        for address in self.addresses:
            subprocess.run(["ip", "netns", "del", f"pumice-{address}"], stderr=subprocess.DEVNULL)
        for device in self.devices:
            os.close(device)


class Relay:
    """Carries packets between the devices, late and at a rate."""

    def __init__(self, hosts, delay, rate):
        self.devices = hosts.devices
        self.by_address = {bytes(map(int, a.split("."))): d for a, d in zip(hosts.addresses, hosts.devices)}
        self.delay = delay
        self.seconds_per_byte = 8 / rate if rate else 0
        self.free = {device: 0.0 for device in self.devices}  # when a host's link has sent what it was given
        self.waiting = []  # (when it arrives, which came first, device, packet)
        self.count = self.bytes = 0

    def take(self, device):
        while True:
            try:
                packet = os.read(device, MTU + 100)
            except BlockingIOError:
                return
            target = self.by_address.get(packet[16:20]) if packet and packet[0] >> 4 == 4 else None
            if target is None:
                continue  # IPv6 solicitations, multicast
            now = time.monotonic()
            self.free[device] = max(now, self.free[device]) + len(packet) * self.seconds_per_byte
            self.count += 1
            self.bytes += len(packet)
            heapq.heappush(self.waiting, (self.free[device] + self.delay, self.count, target, packet))

    def hand_out(self):
        """Writes what has arrived; returns the seconds until something does."""
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= now:
            _, _, target, packet = heapq.heappop(self.waiting)
            try:
                os.write(target, packet)
            except OSError:
                pass  # a full queue loses packets, as a link does
        return max(self.waiting[0][0] - now, 0) if self.waiting else None

    def carry(self, finished):
        while finished() is None:
            rest = self.hand_out()
            # select() counts in microseconds; epoll in milliseconds, which are too long here.
            ready, _, _ = select.select(self.devices, [], [], 0.05 if rest is None else min(rest, 0.05))
            for device in ready:
                self.take(device)


def mpirun(arguments, hosts, agent):
    places = ",".join(f"{address}:1" for address in hosts.addresses)
    command = ["mpirun", "--quiet", "--allow-run-as-root", "--bind-to", "none", "--host", places, "-n", str(len(hosts.addresses)),
               "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", f"{NETWORK}0/24",
               "--mca", "oob_tcp_if_include", f"{NETWORK}0/24", "--mca", "orte_keep_fqdn_hostnames", "1"]
    if arguments.enable_recovery:
        command.append("--enable-recovery")
    for name in sorted(os.environ):
        if name.startswith(("VK_", "LP_", "PUMICE_", "XDG_", "LD_LIBRARY_PATH")):
            command += ["-x", name]
    if arguments.cores:
        command += ["sh", "-c", f'exec taskset -c $((OMPI_COMM_WORLD_RANK % {os.cpu_count()})) "$@"', "sh"]
    first = hosts.addresses[0]
    return ["ip", "netns", "exec", f"pumice-{first}", "unshare", "--uts", "sh", "-c", f'hostname host-{first}; exec "$@"',
            "sh", *command, *arguments.command]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0.1, help="milliseconds until a packet arrives (0.1)")
    parser.add_argument("--rate", type=float, default=100, help="Mbit/s that leave each host (100); 0: no limit")
    parser.add_argument("--cores", action="store_true", help="pin each rank to one processor")
    parser.add_argument("--enable-recovery", action="store_true", help="leave faults to the command (see STAGES.md)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        sys.exit("separate_hosts: network namespaces and TUN devices are for root, on Linux with /dev/net/tun")
    if not 2 <= arguments.hosts <= 250:
        sys.exit(f"separate_hosts: --hosts {arguments.hosts}: expected 2 to 250")
    with tempfile.TemporaryDirectory(prefix="pumice-hosts-") as folder, Hosts(arguments.hosts) as hosts:
        agent = os.path.join(folder, "agent")
        with open(agent, "w") as file:
            file.write(AGENT)
        os.chmod(agent, 0o755)
        relay = Relay(hosts, arguments.delay / 1e3, arguments.rate * 1e6)
        child = subprocess.Popen(mpirun(arguments, hosts, agent))
        signal.signal(signal.SIGINT, lambda *_: child.send_signal(signal.SIGINT))
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        relay.carry(child.poll)
        print(f"separate_hosts: {relay.count} packets, {relay.bytes} bytes", file=sys.stderr)
        status = child.returncode
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
