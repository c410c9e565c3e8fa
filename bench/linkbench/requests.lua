-- The ten requests of the paper and their mix, each one or a few statements of SQL.
--
-- Invariants:
-- 1. A change of a link's visibility and the change of its count are in one transaction, the link first; so two
--    transactions about the same (id1, link_type) wait for each other only in one order.
-- 2. Who retries a request rolls back before.
local ffi = require("ffi")

-- What sysbench's connection holds behind the fields it shows to Lua. self_test() tells when that is not so.
ffi.cdef [[
typedef struct {
  int error; int sql_errno; const char *sql_state; const char *sql_errmsg; void *driver;
  void *native; int counter; uint32_t rows_affected;
} linkbench_connection;
]]

local WRITE_COUNTER = 2 -- of sysbench's classes: other 0, read 1, write 2
local HISTORY_SHARE = 0.1 -- of the lists: those older than some moment, instead of the newest
local MULTIGET_LINKS_MAX = 10

local requests = {}
requests.__index = requests

-- Percent of all requests (table of the paper's section on its operation mix).
requests.MIX = {
  {"ADD_LINK", 9.0}, {"DELETE_LINK", 3.0}, {"UPDATE_LINK", 8.0}, {"COUNT_LINK", 4.9}, {"MULTIGET_LINK", 0.5},
  {"GET_LINKS_LIST", 50.7}, {"ADD_NODE", 2.6}, {"UPDATE_NODE", 7.4}, {"DELETE_NODE", 1.0}, {"GET_NODE", 12.9},
}

function requests.new(connection, graph, list_limit)
  local self = setmetatable({connection = connection, graph = graph, list_limit = list_limit}, requests)
  connection:query("SET NAMES latin1")
  self:self_test()
  return self
end

-- Runs the statement and returns how many rows it changed.
function requests:change(...)
  self.connection:query(string.format(...))
  local inner = ffi.cast("linkbench_connection *", self.connection)
  return inner.counter == WRITE_COUNTER and inner.rows_affected or 0
end

function requests:self_test()
  self.connection:query("CREATE TEMPORARY TABLE affected (a INT PRIMARY KEY, b INT) ENGINE=MEMORY")
  local insert = "INSERT INTO affected VALUES %s ON DUPLICATE KEY UPDATE b = VALUES(b)"
  local found = {self:change(insert, "(1,1)"), self:change(insert, "(1,2)"), self:change(insert, "(1,2)")}
  self.connection:query("DROP TEMPORARY TABLE affected")
  assert(found[1] == 1 and found[2] == 2 and found[3] == 0,
         "this sysbench does not tell the rows a statement changed where linkbench looks for them")
end

local function now_ms() return os.time() * 1000 end

-- Makes the link, or shows it again, or changes what it carries; counts it when it was not visible before.
function requests:write_link(id, link_type, number)
  local id2, time, value = self.graph:target(id, link_type, number), now_ms(), self.graph:link_value()
  self.connection:query("BEGIN")
  local changed = self:change(
    "INSERT INTO linktable (id1, id2, link_type, visibility, data, time, version) VALUES (%d,%d,%d,1,'%s',%d,0) " ..
      "ON DUPLICATE KEY UPDATE visibility = VALUES(visibility)", id, id2, link_type, value, time)
  if changed ~= 1 then
    self:change("UPDATE linktable SET data='%s', time=%d, version=version+1 WHERE link_type=%d AND id1=%d AND id2=%d",
                value, time, link_type, id, id2)
  end
  if changed ~= 0 then
    self:change("INSERT INTO counttable (id, link_type, count, time, version) VALUES (%d,%d,1,%d,0) " ..
                  "ON DUPLICATE KEY UPDATE count=count+1, time=VALUES(time), version=version+1", id, link_type, time)
  end
  self.connection:query("COMMIT")
end

function requests:ADD_LINK()
  local id, link_type = self.graph:popular_list()
  self:write_link(id, link_type, self.graph:new_link(id, link_type))
end

function requests:UPDATE_LINK()
  local id, link_type = self.graph:popular_list()
  self:write_link(id, link_type, self.graph:loaded_link(id, link_type))
end

-- Hides the link: the row stays.
function requests:DELETE_LINK()
  local id, link_type = self.graph:popular_list()
  local either = sysbench.rand.uniform(0, 1) == 0 and self.graph.loaded_link or self.graph.new_link
  local id2, time = self.graph:target(id, link_type, either(self.graph, id, link_type)), now_ms()
  self.connection:query("BEGIN")
  local hidden = self:change("UPDATE linktable SET visibility=0 WHERE link_type=%d AND id1=%d AND id2=%d " ..
                               "AND visibility=1", link_type, id, id2)
  if hidden > 0 then
    self:change("UPDATE counttable SET count=count-1, time=%d, version=version+1 WHERE id=%d AND link_type=%d",
                time, id, link_type)
  end
  self.connection:query("COMMIT")
end

function requests:COUNT_LINK()
  local id, link_type = self.graph:popular_list()
  self.connection:query(string.format("SELECT count FROM counttable WHERE id=%d AND link_type=%d", id, link_type))
end

function requests:MULTIGET_LINK()
  local id, link_type = self.graph:popular_list()
  local targets = {}
  for i = 1, sysbench.rand.uniform(1, MULTIGET_LINKS_MAX) do
    targets[i] = self.graph:target(id, link_type, self.graph:loaded_link(id, link_type))
  end
  self.connection:query(string.format(
    "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable " ..
      "WHERE link_type=%d AND id1=%d AND id2 IN (%s)", link_type, id, table.concat(targets, ",")))
end

-- The newest links first, at most list_limit of them.
function requests:GET_LINKS_LIST()
  local id, link_type = self.graph:popular_list()
  local until_ms = now_ms()
  if sysbench.rand.uniform_double() < HISTORY_SHARE then
    until_ms = 1356998400000 + math.floor(31536000000 * sysbench.rand.uniform_double())
  end
  self.connection:query(string.format(
    "SELECT id1, id2, link_type, visibility, data, time, version FROM linktable FORCE INDEX (id1_type) " ..
      "WHERE id1=%d AND link_type=%d AND visibility=1 AND time BETWEEN 0 AND %d ORDER BY time DESC LIMIT %d",
    id, link_type, until_ms, self.list_limit))
end

function requests:ADD_NODE()
  self:change("INSERT INTO nodetable (type, version, time, data) VALUES (1,0,%d,'%s')", os.time(),
              self.graph:node_value())
end

function requests:UPDATE_NODE()
  self:change("UPDATE nodetable SET version=version+1, time=%d, data='%s' WHERE id=%d AND type=1", os.time(),
              self.graph:node_value(), self.graph:popular_node())
end

function requests:DELETE_NODE()
  self:change("DELETE FROM nodetable WHERE id=%d AND type=1", self.graph:popular_node())
end

function requests:GET_NODE()
  self.connection:query(string.format("SELECT id, type, version, time, data FROM nodetable WHERE id=%d AND type=1",
                                      self.graph:popular_node()))
end

return requests
