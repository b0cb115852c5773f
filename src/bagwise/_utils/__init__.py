"""Small tools that know nothing of bags: files replaced whole, threads of BLAS, bars, checks."""
