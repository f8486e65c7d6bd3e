COPY t (a, b) FROM 't.parquet' (FORMAT parquet);
