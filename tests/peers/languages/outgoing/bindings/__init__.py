"""The builder writes what belongs here."""
