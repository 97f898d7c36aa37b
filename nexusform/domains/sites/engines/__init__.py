"""Who does the work of many sites: warm processes of this machine, or a Dask cluster."""
