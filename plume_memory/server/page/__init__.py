"""The page at `/`: looks into memories in a browser. Rendered here; works for reading without JavaScript."""
