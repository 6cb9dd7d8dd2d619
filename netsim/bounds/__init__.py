"""What no transport can beat: completion times of flows alone, and max-min fair shares."""
