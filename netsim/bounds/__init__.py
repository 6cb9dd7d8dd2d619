"""Lower bounds of completion times: flows alone, max-min fair shares, dependency chains."""
