"""What each `kind:` of spec runs as: a `Runner`, compiled once, called for every group."""
