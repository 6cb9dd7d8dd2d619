"""`netsim new-transport`: the files of a transport to begin with, which work as they are."""

from netsim.cli.new_files import new_command

command = new_command(
    "transport", "a small transport that works", "transports/README.md", "netsim.transports"
)
