"""The experiments that come with netsim: one TOML file each, in folders by subject."""
