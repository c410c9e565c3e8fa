-- LinkBench for sysbench: a social graph in three tables, written from the paper (Armstrong et al., LinkBench: a
-- Database Benchmark Based on the Facebook Social Graph, SIGMOD 2013). bench/linkbench.py drives it.
--
--    sysbench linkbench.lua --nodes=100000 --threads=4 prepare | run | check | cleanup
--
-- prepare runs in as many threads as told; check compares counttable with the visible links and fails at a mismatch.
local here = debug.getinfo(1, "S").source:match("^@?(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local check = require("check")
local graphs = require("graph")
local latency = require("latency")
local requests = require("requests")
local tables = require("tables")

sysbench.cmdline.options = {
  nodes = {"Nodes of the graph that prepare loads; links are 3.7 times as many", 100000},
  engine = {"Storage engine", "InnoDB"},
  mysql_storage_engine = {"Engine and table options in one, as sysbench's own scripts take them", ""},
  table_options = {"What else stands in CREATE TABLE", ""},
  partitions = {"Partitions of linktable by key (id1); 0 for none", 0},
  link_types = {"Types of links", 2},
  skew = {"Exponent of the power law by which nodes are asked for", 0.6},
  correlation = {"Percent of the requests about links that prefer nodes with many", 10},
  list_limit = {"Links that GET_LINKS_LIST returns at most", 1000},
  compressible = {"Percent of every value that compresses to nothing: 50 is 2:1", 50},
  latency_file = {"Where each thread writes its latencies, with its number behind; empty for nowhere", ""},
}

local function connect() return sysbench.sql.driver():connect() end

local function prepare()
  local connection = connect()
  tables.create(connection, sysbench.opt)
  tables.load(connection, graphs.new(sysbench.opt), sysbench.tid, sysbench.opt.threads)
end

local function cleanup() tables.drop(connect()) end

local function check_counts() check.counts(connect()) end

sysbench.cmdline.commands = {
  prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND},
  check = {check_counts},
  cleanup = {cleanup},
}

local function cumulative_mix()
  local names, limits, sum = {}, {}, 0
  for type, entry in ipairs(requests.MIX) do
    sum = sum + entry[2]
    names[type], limits[type] = entry[1], sum
  end
  assert(math.abs(sum - 100) < 0.001)
  return names, limits
end

local names, limits = cumulative_mix()
local driver, connection, client, times -- of this thread
local type_now, started_us

function thread_init()
  driver = sysbench.sql.driver()
  connection = driver:connect()
  client = requests.new(connection, graphs.new(sysbench.opt), sysbench.opt.list_limit)
  client.graph:value(1) -- makes the pool of random bytes before the first request
  times = latency.new(names)
end

local function choose_type()
  local dice = sysbench.rand.uniform_double() * 100
  for type = 1, #limits do
    if dice < limits[type] then return type end
  end
  return #limits
end

-- One request. When sysbench restarts it after a deadlock, it is of the same type, and its time goes on.
function event()
  if type_now == nil then type_now, started_us = choose_type(), latency.now_us() end
  client[names[type_now]](client)
  times:add(type_now, latency.now_us() - started_us)
  type_now = nil
end

function sysbench.hooks.before_restart_event() connection:query("ROLLBACK") end

function thread_done()
  if sysbench.opt.latency_file ~= "" then times:write(sysbench.opt.latency_file .. "." .. sysbench.tid) end
  connection:disconnect()
end
