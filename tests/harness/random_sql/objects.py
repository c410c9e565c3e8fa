"""Statements of the random SQL test about sequences, triggers and files.

`{F}` in a statement stands for a directory to which the server may write. Each engine has its own.
"""

from __future__ import annotations

import random

from harness.random_sql import dml as dml
from harness.random_sql.ddl import Change
from harness.random_sql.dml import Step
from harness.random_sql.schema import Names, Table

AUDIT = Step("CREATE TABLE audit (what VARCHAR(20), n BIGINT, KEY what (what)) ENGINE={E}{C}")


class Objects:
    """The sequences and triggers of a round."""

    def __init__(self, rng: random.Random, names: Names):
        self.rng = rng
        self._names = names
        self._sequences: list[str] = []
        self._triggers: list[str] = []

    # ---- sequences --------------------------------------------------------------------------------------

    def sequence(self) -> Change:
        """A statement on a sequence. It creates a sequence if there is none."""
        choice = self.rng.random()
        if not self._sequences or (choice < 0.1 and len(self._sequences) < 3):
            return self._create_sequence()
        name = self.rng.choice(self._sequences)
        if choice < 0.15:
            return f"DROP SEQUENCE {name}", lambda: self._sequences.remove(name)
        if choice < 0.22:
            return self._rename_sequence(name)
        number = self.rng.randrange(-3, 60)
        sql = self.rng.choice((
            f"SELECT NEXT VALUE FOR {name}", f"SELECT NEXT VALUE FOR {name} FROM seq_1_to_{abs(number) % 9 + 1}",
            f"SELECT NEXTVAL({name}), LASTVAL({name})", f"SELECT SETVAL({name}, {number})",
            f"SELECT SETVAL({name}, {number}, 0)", f"ALTER SEQUENCE {name} RESTART {number}",
            f"ALTER SEQUENCE {name} INCREMENT BY {number or 1}", f"SELECT * FROM {name}",
            f"INSERT INTO audit VALUES ('sequence', NEXTVAL({name}))",
        ))  # fmt: skip
        return sql, lambda: None

    def _create_sequence(self) -> Change:
        name = self._names.fresh("s")
        step = self.rng.choice((1, 1, 2, 7, -1))
        limits = f"START WITH {self.rng.randrange(1, 9)} MINVALUE -20 MAXVALUE {self.rng.choice((20, 9000))}"
        cache = self.rng.choice(("NOCACHE", "CACHE 2", "CACHE 1000"))
        cycle = self.rng.choice(("", "CYCLE "))
        sql = f"CREATE SEQUENCE {name} {limits} INCREMENT BY {step} {cache} {cycle}ENGINE={{E}}"
        return sql, lambda: self._sequences.append(name)

    def _rename_sequence(self, name: str) -> Change:
        new = self._names.fresh("s")

        def done() -> None:
            self._sequences[self._sequences.index(name)] = new

        return f"RENAME TABLE {name} TO {new}", done

    # ---- triggers ---------------------------------------------------------------------------------------

    def trigger(self, table: Table) -> Change | None:
        """Creates or drops a trigger."""
        if table.temporary:
            return None
        if self._triggers and self.rng.random() < 0.5:
            name = self.rng.choice(self._triggers)
            return f"DROP TRIGGER IF EXISTS {name}", lambda: self._triggers.remove(name)
        name = self._names.fresh("g")
        event = self.rng.choice(("INSERT", "UPDATE", "DELETE"))
        row = "OLD" if event == "DELETE" else "NEW"
        column = self.rng.choice(table.written())
        if event != "DELETE" and self.rng.random() < 0.3 and not column.auto:
            when, body = "BEFORE", f"SET NEW.{column.name} = {dml.literal(self.rng, column)}"
        else:
            when = self.rng.choice(("BEFORE", "AFTER"))
            value = f"{row}.{column.name}" if column.type.family == "int" else "7"
            body = f"INSERT INTO audit VALUES ('{event} {when}', {value})"

        def done() -> None:
            self._triggers.append(name)
            if event == "UPDATE" and body.startswith("SET"):
                table.set_by_triggers.add(column.name)

        return f"CREATE TRIGGER {name} {when} {event} ON {table.name} FOR EACH ROW {body}", done

    # ---- files ------------------------------------------------------------------------------------------

    def through_a_file(self, table: Table, target: Table) -> list[Step]:
        """Writes rows to a file and loads them into another table."""
        order = table.total_order()
        columns = [c for c in target.written() if c.type.family != "shape"]
        if not order or len(columns) < len(target.written()):
            return []
        values = []
        for column in columns:
            alike = [c for c in table.columns if c.type.family == column.type.family and not column.auto]
            values.append(self.rng.choice(alike).name if alike else dml.literal(self.rng, column))
        path = f"'{{F}}/{self._names.fresh('f')}'"
        charset = "CHARACTER SET utf8mb4"
        write = f"SELECT {', '.join(values)} FROM {table.name} ORDER BY {order} INTO OUTFILE {path} {charset}"
        how = self.rng.choice((" IGNORE", " REPLACE", ""))
        names = ", ".join(c.name for c in columns)
        load = f"LOAD DATA INFILE {path}{how} INTO TABLE {target.name} {charset} ({names})"
        return [Step(write), Step(load)]
