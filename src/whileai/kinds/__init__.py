"""What each `kind:` of spec runs as."""
