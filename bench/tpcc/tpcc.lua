-- TPC-C for sysbench, written from the specification (5.11). Its commands:
--
--    sysbench bench/tpcc/tpcc.lua --warehouses=10 --threads=4 prepare     makes and fills the tables, in parallel
--    sysbench bench/tpcc/tpcc.lua --warehouses=10 --threads=4 --time=60 run
--    sysbench bench/tpcc/tpcc.lua --warehouses=10 --threads=2 check       the consistency conditions of clause 3.3.2
--    sysbench bench/tpcc/tpcc.lua cleanup
--
-- run ends with a line "tpcc-json: {...}" beside sysbench's own report; it has the new orders a minute. Not as in the
-- specification: clients do not think or type, are bound to no warehouse, and Delivery is not queued.
local directory = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
package.path = directory .. "?.lua;" .. package.path

local consistency = require("consistency")
local counters = require("counters")
local json = require("json")
local load = require("load")
local schema = require("schema")
local Session = require("session")
local Terminal = require("terminal")

-- New-Order must be the first one.
local KINDS = {
   require("new_order"),
   require("payment"),
   require("order_status"),
   require("delivery"),
   require("stock_level"),
}

sysbench.cmdline.options = {
   warehouses = { "Number of warehouses", 1 },
   scale_items = { "Divides the numbers of items, customers and orders, for quick tests", 1 },
   engine = { "Storage engine", "InnoDB" },
   table_options = { "What CREATE TABLE has after the engine", "" },
   mysql_storage_engine = { "Both of them; replaces them", "" },
   compressible = { "One part in so many of a filler text is random, the rest is the same everywhere", 2 },
   fk = { "Foreign keys: none or all", "none" },
   seed = { "Seed of the clients' random numbers; 0 takes the time", 0 },
}

local function connect()
   return sysbench.sql.driver():connect()
end

local function warehouses_of_thread()
   local mine = {}
   for w = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.warehouses, sysbench.opt.threads do
      mine[#mine + 1] = w
   end
   return mine
end

local function prepare_command()
   local connection, options = connect(), sysbench.opt
   if sysbench.tid % options.threads == 0 then
      schema.create(connection, options)
      load.items(connection, options)
   else
      load.wait_for_tables(connection)
   end
   for _, w in ipairs(warehouses_of_thread()) do
      load.warehouse(connection, options, w)
   end
   connection:disconnect()
end

-- Prints a line for each violation and one for each warehouse without. (sysbench does not tell by its exit status that
-- a command of several threads failed, so who asks must count the lines.)
local function check_command()
   local check = Session.new(connect())
   for _, w in ipairs(warehouses_of_thread()) do
      local violations = consistency.violations(check, w, schema.sizes(sysbench.opt))
      for _, violation in ipairs(violations) do
         print(("VIOLATION: warehouse %d: %s"):format(w, violation))
      end
      if #violations == 0 then
         print(("warehouse %d is consistent"):format(w))
      end
   end
   check:close()
end

sysbench.cmdline.commands = {
   prepare = { prepare_command, sysbench.cmdline.PARALLEL_COMMAND },
   check = { check_command, sysbench.cmdline.PARALLEL_COMMAND },
   cleanup = { function() schema.drop(connect()) end },
}

local session, terminal, mine

function init()
   counters.create()
end

function thread_init(thread)
   session = Session.new(connect())
   for _, kind in ipairs(KINDS) do
      kind.prepare(session)
   end
   local seed = sysbench.opt.seed > 0 and sysbench.opt.seed or os.time()
   terminal = Terminal.new(sysbench.opt, seed * 1009 + thread, KINDS)
   mine = counters.of_thread(thread)
end

-- Runs the transaction until it succeeds, with the same input. Errors: those that mean no conflict go to sysbench.
local function run_until_done(kind, input)
   while true do
      local ok, result = pcall(kind.run, session, input)
      if ok then
         return result
      end
      if type(result) ~= "table" or result.errcode ~= sysbench.error.RESTART_EVENT then
         error(result, 0)
      end
      mine:conflict(result.sql_errno)
      session:execute("rollback")
   end
end

function event()
   local position = terminal:next_kind()
   local kind = KINDS[position]
   local input = kind.input(terminal)
   local started_us = counters.now_us()
   local committed = run_until_done(kind, input)
   mine:finished(position, started_us, counters.now_us(), committed)
end

function thread_done()
   session:close()
end

function done()
   print("tpcc-json: " .. json.encode(counters.totals(KINDS)))
end
