"""Goal:   each rule of tidy.py finds the violation for which it is made, and nothing else.

Method: small trees in a temporary folder with one violation each, and one clean tree that must give no
        finding.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from source_text import blank_comments_and_strings, functions
from tidy import FILE_LINES_MAX, FOLDER_FILES_MAX, FUNCTION_LINES_MAX, check
from tidy_types import TYPE_FILES_MAX, TYPE_FUNCTIONS_MAX

CLEAN_CC = "// What this is for.\n#include <vector>\nint f() { return 0; }\n"


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def long_function(lines: int) -> str:
    return "// Long.\nint Class::f(int a) const {\n" + "  a++;\n" * (lines - 2) + "}\n"


@pytest.mark.parametrize(
    ("path", "text", "rule", "line"),
    [
        ("engine/codec/a.cc", "int f();\n", "file-header", 1),
        ("crates/x/src/lib.rs", "// plain\n", "file-header", 1),
        ("engine/codec/a.cc", "// A.\n" * (FILE_LINES_MAX + 1), "file-length", 1),
        ("engine/codec/a.cc", long_function(FUNCTION_LINES_MAX + 1), "function-length", 2),
        (
            "crates/x/src/lib.rs",
            "//! A.\nfn f() {\n" + "    g();\n" * FUNCTION_LINES_MAX + "}\n",
            "function-length",
            2,
        ),
        ("engine/txn/a.cc", "// A.\n#include <sql_class.h>\n", "include", 2),
        ("engine/codec/a.cc", "// A.\n#include <rocksdb/db.h>\n", "include", 2),
        ("engine/handler/a.cc", "// A.\n#include <rocksdb/db.h>\n", "include", 2),
        ("engine/codec/a.cc", '// A.\n#include "lsm/database.h"\n', "include", 2),
        ("engine/handler/a.cc", '// A.\n#include "plugin/show/status.h"\n', "include", 2),
        ("engine/engine/a.cc", '// A.\n#include "handler/session/session.h"\n', "include", 2),
        ("engine/engine/a.cc", "// A.\n#include <sql_class.h>\n", "include", 2),
        ("engine/codec/a.cc", "// A.\n// TODO: later\n", "todo", 2),
        ("engine/codec/a.cc", "// A.\n// FIXME(#1): later\n", "todo", 2),
        ("engine/lsm/a.cc", "// A.\nvoid f() { sprintf(b, x); }\n", "banned-call", 2),
        ("engine/lsm/a.cc", "// A.\nstd::mutex m;\n", "mutex", 2),
        ("engine/txn/a.cc", '// A.\n#include "lsm/raw.h"\n', "sealed-lsm", 2),
        ("engine/handler/a.cc", "// A.\nvoid f(rocksdb::TransactionDB *db);\n", "sealed-lsm", 2),
        ("engine/codec/a.cc", "// A.\nauto t = std::chrono::system_clock::now();\n", "pure-codec", 2),
        ("crates/objstore/src/a.rs", "//! A.\nunsafe fn f() {}\n", "unsafe", 2),
        ("engine/lsm/a.cc", "// A.\n#if 0\n#endif\n", "dead-code", 2),
        ("engine/lsm/utils.cc", CLEAN_CC, "file-name", 1),
    ],
)
def test_each_sin_is_found_where_it_is(tmp_path: Path, path: str, text: str, rule: str, line: int) -> None:
    write(tmp_path, path, text)
    assert [(f.path, f.rule, f.line) for f in check(tmp_path)] == [(path, rule, line)]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("engine/codec/a.cc", CLEAN_CC),
        ("engine/codec/a.cc", long_function(FUNCTION_LINES_MAX)),
        ("engine/codec/a.cc", '// A.\nauto s = "sprintf(x)";  // strcpy(a, b)\n'),
        ("engine/lsm/a.cc", "// A.\nint operand(int x); int y = operand(1);\n"),
        ("engine/codec/a.cc", "// A.\n// TODO(#12): later\n"),
        ("engine/handler/a.cc", "// A.\n#include <sql_class.h>\n#include <rocksdb/slice.h>\n"),
        ("engine/catalog/a.cc", '// A.\n#include "codec/row_codec.h"\n#include "lsm/database.h"\n'),
        ("engine/lsm/a.cc", "// A.\nvoid f(rocksdb::DB *db);\n"),
        ("engine/txn/a_test.cc", '// A.\n#include "lsm/raw.h"\nrocksdb::DB *db;\n'),
        ("crates/objstore-ffi/src/lib.rs", "//! A.\nunsafe fn f() {}\n"),
        ("crates/objstore/src/a.rs", "//! A.\n#![deny(unsafe_code)]\n// unsafe in a comment\n"),
    ],
)
def test_what_is_allowed_gives_no_finding(tmp_path: Path, path: str, text: str) -> None:
    write(tmp_path, path, text)
    assert check(tmp_path) == []


def test_a_source_beside_its_header_needs_no_comment_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "engine/base/a.h", "// What this is for.\n#pragma once\n")
    write(tmp_path, "engine/base/a.cc", '#include "base/a.h"\n')
    assert check(tmp_path) == []


def test_a_listed_exception_may_shrink_but_not_grow_and_goes_when_unneeded(tmp_path: Path) -> None:
    ratchet = {"engine/base/a.cc": FILE_LINES_MAX + 5}
    write(tmp_path, "tools/tidy_ratchet.json", json.dumps(ratchet))
    for lines, rules in ((5, []), (3, []), (6, ["file-length"]), (-9, ["ratchet"])):
        write(tmp_path, "engine/base/a.cc", "// A.\n" * (FILE_LINES_MAX + lines))
        assert [f.rule for f in check(tmp_path)] == rules, lines


def test_a_folder_has_few_files(tmp_path: Path) -> None:
    for number in range(FOLDER_FILES_MAX):
        write(tmp_path, f"engine/lsm/a{number}.cc", CLEAN_CC)
        write(tmp_path, f"engine/lsm/b/a{number}.cc", CLEAN_CC)
    assert check(tmp_path) == []
    write(tmp_path, "engine/lsm/b/one_more.cc", CLEAN_CC)
    assert [(f.path, f.rule) for f in check(tmp_path)] == [("engine/lsm/b", "folder-size")]


def test_an_invariant_must_name_a_test_that_exists(tmp_path: Path) -> None:
    write(tmp_path, "engine/codec/a_test.cc", "// A.\nTEST(Key, order_is_kept) {}\n")
    row = "| **KEY-1** | order | {} |\n"
    for names, found in (("`order_is_kept`", 0), ("`no_such_test`", 1), ("", 1), ("issue #3", 0)):
        write(tmp_path, "docs/internals/rules.md", row.format(names))
        assert len(check(tmp_path)) == found, names


def test_a_file_that_a_document_names_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, "engine/codec/a.h", "// A.\n")
    write(tmp_path, "docs/a.md", "see `codec/a.h`\nand `codec/gone.h`, `engine/a.h`\n")
    assert [(f.line, f.message.split(" ")[2]) for f in check(tmp_path) if f.rule == "named-file"] == [
        (2, "codec/gone.h,"),
        (2, "engine/a.h,"),
    ]


def test_a_file_that_a_comment_names_must_be_there(tmp_path: Path) -> None:
    write(tmp_path, "crates/x/src/gc/plan.rs", "//! See `gc/plan.rs` and plan.rs, not old/plan.rs.\n")
    write(
        tmp_path, "engine/lsm/a.h", "// Source: sql/handler.h, db/a.cc. Test: a_test.cc.\n/* gone.h\n * */\n"
    )
    write(tmp_path, "engine/lsm/b.cc", '// B.\nauto name = "gone.cc";  // lsm/a.h, kept.sst, <file>.cc\n')
    write(tmp_path, "tools/a.py", '"""Reads plan.rs\nand lost.py."""\n\nNAME = "gone.py"\n')
    write(tmp_path, "tools/a.sh", "# As gone.sh.\necho 'a # gone.py'\n")
    found = [(f.path, f.line, f.message.split(" ")[3]) for f in check(tmp_path)]
    assert found == [
        ("crates/x/src/gc/plan.rs", 1, "old/plan.rs,"),
        ("engine/lsm/a.h", 1, "a_test.cc,"),
        ("engine/lsm/a.h", 2, "gone.h,"),
        ("tools/a.py", 2, "lost.py,"),
        ("tools/a.sh", 1, "gone.sh,"),
    ]


def test_a_type_has_few_functions_in_few_files(tmp_path: Path) -> None:
    body = "".join(f"void T::f{number}() {{}}\n" for number in range(TYPE_FUNCTIONS_MAX))
    write(tmp_path, "engine/lsm/a.cc", "// A.\n" + body)
    write(tmp_path, "engine/txn/a.cc", "// A.\n" + body)
    for number in range(TYPE_FILES_MAX):
        rust = "//! A.\nstruct Own;\nimpl Own {\n fn f() {}\n}\nimpl<'a> T<'a> {\n fn f() {}\n}\n"
        write(tmp_path, f"crates/x/src/a{number}.rs", rust + "impl Drop for T {\n fn drop() {}\n}\n")
    assert check(tmp_path) == []
    write(tmp_path, "engine/lsm/b.cc", "// B.\nvoid T::g() {}\n")
    one_more = "//! B.\nstruct Own;\nimpl Own {\n fn f() {}\n}\nimpl T {\n fn f() {}\n}\n"
    write(tmp_path, "crates/x/src/b.rs", one_more)
    found = [(f.path, f.rule) for f in check(tmp_path)]
    assert found == [("crates/x/src/a0.rs", "type-files"), ("engine/lsm/a.cc", "type-functions")]
    listed = {"crates/x:T:files": TYPE_FILES_MAX + 1, "engine/lsm:T:functions": TYPE_FUNCTIONS_MAX + 1}
    write(tmp_path, "tools/tidy_ratchet.json", json.dumps(listed))
    assert check(tmp_path) == []


HANDLER = "// A.\nclass ha_atoll : public handler {\n  int open(const char *name) override;\n{}}};\n"


def test_documents_and_the_build_say_the_same_about_layers(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parent.parent
    for path in ("ARCHITECTURE.md", "engine/CMakeLists.txt"):
        write(tmp_path, path, (root / path).read_text())
    assert [f for f in check(tmp_path) if f.rule == "layers"] == []
    table = (
        (root / "ARCHITECTURE.md").read_text().replace("| MariaDB, catalog,", "| MariaDB, plugin, catalog,")
    )
    write(tmp_path, "ARCHITECTURE.md", table)
    build = (root / "engine/CMakeLists.txt").read_text().replace("atoll_folder(codec", "atoll_folder(codecs")
    write(tmp_path, "engine/CMakeLists.txt", build)
    found = [(f.path, f.message.split("/")[0]) for f in check(tmp_path) if f.rule == "layers"]
    assert found == [("ARCHITECTURE.md", "handler"), ("engine/CMakeLists.txt", "codec")]


def test_what_the_server_or_rocksdb_calls_is_guarded_or_never_throws(tmp_path: Path) -> None:
    guard = (
        "// A.\nint open(const char *name) override { return code([&] { return ha_atoll::open(name); }); }\n"
    )
    write(tmp_path, "engine/handler/server/guarded_handler.cc", guard)
    more = "  int close() noexcept override;\n  ~ha_atoll() override;\n"
    throwing = "  int\n  close() const override;\n"
    for text, lines in ((more, []), (throwing, [5])):
        write(tmp_path, "engine/handler/ha_atoll.h", HANDLER.replace("{}}", text + "}"))
        assert [(f.rule, f.line) for f in check(tmp_path)] == [("border", line) for line in lines]


def test_a_callback_of_the_handlerton_is_guarded(tmp_path: Path) -> None:
    guarded = "  hton->flags = 3;\n  hton->prepare =\n      guarded_function<prepare, fails>;\n"
    for line, found in (("", []), ("  hton->commit = commit;\n", [6])):
        write(tmp_path, "engine/handler/a.cc", f"// A.\nvoid fill() {{\n{guarded}{line}}}\n")
        assert [(f.rule, f.line) for f in check(tmp_path)] == [("border", line) for line in found]


def test_conditions_on_the_version_of_mariadb_stand_in_one_folder(tmp_path: Path) -> None:
    text = "// A.\n#if MYSQL_VERSION_ID < 110000\n#endif\n"
    for path, found in (("engine/handler/a.cc", [2]), ("engine/handler/server/compat/a.cc", [])):
        write(tmp_path, path, text)
        findings = [f for f in check(tmp_path) if f.rule == "series"]
        assert [f.line for f in findings] == found
        (tmp_path / path).unlink()


def test_functions_of_cpp_are_found_with_their_lines() -> None:
    code = (
        "namespace a {\n"
        "struct S { int x = 1; int get() const { return x; } };\n"
        "S::S(int v)\n    : x_{v}, y_(2) {\n  if (v) { g(); }\n}\n"
        "#define M(x) { f(x); }\n"
        "int table[] = {f(1), f(2)};\n"
        "}\n"
    )
    found = functions(blank_comments_and_strings(code, ".cc"), ".cc")
    assert ("get", 2, 2) in [(f.name, f.first_line, f.last_line) for f in found]
    assert any(f.last_line == 6 for f in found)
    assert not any(f.name in {"M", "f", "if"} for f in found)


def test_braces_in_strings_and_lifetimes_do_not_confuse() -> None:
    code = 'fn f<\'a>(x: &\'a str) -> char {\n    let s = "}"; let r = r#"}"}"#;\n    \'}\'\n}\nfn g() {}\n'
    found = functions(blank_comments_and_strings(code, ".rs"), ".rs")
    assert [(f.name, f.first_line, f.last_line) for f in found] == [("f", 1, 4), ("g", 5, 5)]


def test_a_name_means_one_rule(tmp_path: Path) -> None:
    write(
        tmp_path, "engine/lsm/a.h", "// A.\n//   LOAD-1  nothing is visible before the end.\n#pragma once\n"
    )
    write(tmp_path, "engine/lsm/b.h", "// B.\n//   LOAD-1  See a.h.\n#pragma once\n")
    write(tmp_path, "crates/objstore/src/c.rs", "//! C.\n//!\n//! LOAD-1: a load leaves no files.\n")
    write(tmp_path, "crates/objstore/src/c_test.rs", "//! C.\n\n// LOAD-1: nothing was visible.\n")
    found = [(finding.path, finding.rule) for finding in check(tmp_path)]
    assert found == [("engine/lsm/a.h", "rule-name")]
