"""Turn a transport's file into machine code: read, join, specialize, compile and cache it."""
