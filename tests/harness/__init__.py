"""What the demo, the benchmarks and the reliability tests share: servers, buckets, faults, ledgers.

Standard library and PyMySQL only. Every process started here listens on 127.0.0.1, is known by its
pid, and ends with the interpreter: normally, on an exception, on Ctrl-C and on SIGTERM.
"""
