"""Where the world comes in."""
