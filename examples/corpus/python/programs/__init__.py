"""Programs by what they are about."""
