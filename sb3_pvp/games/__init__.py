"""The games. They import the ground only; nobody imports them: they come by entry point."""
