"""Building blocks that transports share: plain functions, and the state that they need."""
