"""Stand-ins that several rooms' tests share."""
