-- The three tables and what they hold at the beginning.
--
-- The schema is the paper's: a link is known by (link_type, id1, id2); a second index, which covers the answer, lists
-- the visible links of a node and type by time; counttable has the number of visible links for each (id, link_type).
local tables = {}

local NODE_ROWS, LINK_ROWS = 500, 1000 -- of one INSERT
local FIRST_TIME_MS, YEAR_MS = 1356998400000, 31536000000 -- the year 2013

local function create_statements(options)
  local engine = options.mysql_storage_engine ~= "" and options.mysql_storage_engine or options.engine
  local tail = string.format(" ENGINE=%s %s DEFAULT CHARSET=latin1 COLLATE=latin1_bin", engine, options.table_options)
  local partitions = options.partitions > 0
    and string.format(" PARTITION BY KEY (id1) PARTITIONS %d", options.partitions) or ""
  return {
    [[CREATE TABLE IF NOT EXISTS nodetable (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, type INT UNSIGNED NOT NULL, version BIGINT UNSIGNED NOT NULL,
      time INT UNSIGNED NOT NULL, data MEDIUMTEXT NOT NULL,
      PRIMARY KEY (id))]] .. tail,
    [[CREATE TABLE IF NOT EXISTS linktable (
      id1 BIGINT UNSIGNED NOT NULL, id2 BIGINT UNSIGNED NOT NULL, link_type BIGINT UNSIGNED NOT NULL,
      visibility TINYINT NOT NULL, data VARCHAR(255) NOT NULL, time BIGINT UNSIGNED NOT NULL,
      version INT UNSIGNED NOT NULL,
      PRIMARY KEY (link_type, id1, id2),
      KEY id1_type (id1, link_type, visibility, time, id2, version, data))]] .. tail .. partitions,
    [[CREATE TABLE IF NOT EXISTS counttable (
      id BIGINT UNSIGNED NOT NULL, link_type BIGINT UNSIGNED NOT NULL, count INT UNSIGNED NOT NULL,
      time BIGINT UNSIGNED NOT NULL, version BIGINT UNSIGNED NOT NULL,
      PRIMARY KEY (id, link_type))]] .. tail,
  }
end

-- Collects rows and sends them as INSERT statements of many rows.
local function inserter(connection, columns, rows_max)
  local head, rows = "INSERT INTO " .. columns .. " VALUES ", {}
  local function flush()
    if #rows > 0 then connection:query(head .. table.concat(rows, ",")) end
    rows = {}
  end
  local function add(...)
    rows[#rows + 1] = string.format(...)
    if #rows >= rows_max then flush() end
  end
  return add, flush
end

local function load_links(graph, id, add_link, add_count)
  for link_type = 1, graph.link_types do
    local degree = graph:degree(id, link_type)
    for number = 0, degree - 1 do
      add_link("(%d,%d,%d,1,'%s',%d,0)", id, graph:target(id, link_type, number), link_type, graph:link_value(),
               FIRST_TIME_MS + math.floor(YEAR_MS * sysbench.rand.uniform_double()))
    end
    if degree > 0 then add_count("(%d,%d,%d,%d,0)", id, link_type, degree, FIRST_TIME_MS) end
  end
end

-- Loads the ids from `first` to `last`, in their order. Every thread has a range of its own.
local function load_range(connection, graph, first, last)
  local add_node, flush_nodes = inserter(connection, "nodetable (id, type, version, time, data)", NODE_ROWS)
  local add_link, flush_links = inserter(
    connection, "linktable (id1, id2, link_type, visibility, data, time, version)", LINK_ROWS)
  local add_count, flush_counts = inserter(connection, "counttable (id, link_type, count, time, version)", LINK_ROWS)
  for id = first, last do
    add_node("(%d,1,0,%d,'%s')", id, FIRST_TIME_MS / 1000, graph:node_value())
    load_links(graph, id, add_link, add_count)
  end
  flush_nodes()
  flush_links()
  flush_counts()
end

-- Every thread of prepare calls it; the first one makes the tables.
function tables.create(connection, options)
  for _, statement in ipairs(create_statements(options)) do connection:query(statement) end
end

function tables.load(connection, graph, thread, threads)
  connection:query("SET NAMES latin1")
  local first = math.floor(graph.nodes * thread / threads) + 1
  load_range(connection, graph, first, math.floor(graph.nodes * (thread + 1) / threads))
end

function tables.drop(connection) connection:query("DROP TABLE IF EXISTS nodetable, linktable, counttable") end

return tables
