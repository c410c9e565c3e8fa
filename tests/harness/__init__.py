"""Code that the demo, the benchmarks and the reliability tests share: servers, buckets, faults, ledgers.

It uses only the standard library and PyMySQL. Every process that it starts listens on 127.0.0.1 and is
signalled by its pid. The process ends with the interpreter: at a normal exit, on an exception, on Ctrl-C and
on SIGTERM.
"""
