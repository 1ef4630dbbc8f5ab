"""AI against AI: strangers' fighters meet, behind walls."""
