"""`netsim new-topology`: the files of a topology to begin with, which work as they are."""

from netsim.cli.new_files import new_command

command = new_command(
    "topology",
    "a small topology that works",
    "topologies/README.md",
    "netsim.topologies",
    "netsim topo {experiment}",
)
