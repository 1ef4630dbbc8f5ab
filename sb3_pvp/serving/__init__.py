"""The prediction socket: fighters that other programs ask for actions."""
