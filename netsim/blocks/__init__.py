"""Parts of which transports are composed: plain functions and the state they need."""
