"""Reports and exports of azure."""
