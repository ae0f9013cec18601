"""Text to units and windows. Knows no model."""
