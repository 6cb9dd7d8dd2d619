"""`netsim new-queue`: the files of a queue discipline to begin with, which work as they are."""

from netsim.cli.new_files import new_command

command = new_command(
    "queue", "a small queue discipline that works", "netsim/queues/README.md", "netsim.queues"
)
