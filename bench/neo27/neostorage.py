"""Runs NEO's storage program with one more engine in its list of engines. Runs under Python 2.7, as NEO does.

    python neostorage.py ATOLL -c cluster -m 127.0.0.1:10000 -d root@neo/run/server.sock -e ATOLL

NEO accepts only engines whose names are in its list, and writes the name into ENGINE= of its CREATE TABLE.
The rest of NEO is unchanged.
"""

import sys

from neo.scripts import neostorage
from neo.storage.database.mysqldb import MySQLDatabaseManager

engine = sys.argv.pop(1)
if engine not in MySQLDatabaseManager.ENGINES:
    MySQLDatabaseManager.ENGINES += (engine,)
sys.exit(neostorage.main())
