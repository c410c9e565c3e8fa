"""Runs NEO's storage program with one more engine in its list of engines. The Python is NEO's: 2.7.

    python neostorage.py ATOLL -c cluster -m 127.0.0.1:10000 -d root@neo/run/server.sock -e ATOLL

NEO takes only the engines it knows by name; ENGINE= of its CREATE TABLE is that name. Nothing else of NEO is changed.
"""

import sys

from neo.scripts import neostorage
from neo.storage.database.mysqldb import MySQLDatabaseManager

engine = sys.argv.pop(1)
if engine not in MySQLDatabaseManager.ENGINES:
    MySQLDatabaseManager.ENGINES += (engine,)
sys.exit(neostorage.main())
