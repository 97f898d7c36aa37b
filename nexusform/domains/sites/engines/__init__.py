"""Engines for many sites: worker processes of this machine, or a Dask cluster."""
