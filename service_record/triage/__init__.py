"""Many bundles -> their causes, counted and compared.

A source yields references to bundles. Each bundle is judged as `analyze` judges it, in a process of its own,
and becomes a row. Rows are Parquet files in an index, which DuckDB reads.
"""
