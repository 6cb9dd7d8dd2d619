"""Building blocks shared by transports: plain functions and the state they need."""
