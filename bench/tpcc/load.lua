-- The initial population of clause 4.3.3, by rows of many in one INSERT.
--
-- 1. The rows of a warehouse depend on its number alone: each one has a generator with a seed of its own.
-- 2. Thread 0 makes the tables and ITEM; a thread fills whole warehouses, so threads never wait for each other.
local ffi = require("ffi")
local Random = require("random")
local schema = require("schema")

ffi.cdef([[int usleep(unsigned int microseconds);]])

local load = {}

local POLL_US = 50000
local ITEM_SEED, WAREHOUSE_SEED = 1, 1000

local Loader = {}
Loader.__index = Loader

local function new_loader(connection, options, seed)
   return setmetatable({
      connection = connection,
      random = Random.new(seed),
      sizes = schema.sizes(options),
      ratio = options.compressible,
      now = os.date("'%Y-%m-%d %H:%M:%S'"),
   }, Loader)
end

-- Inserts one row for each number from 1 to n; `row_of(number)` returns its values in parentheses. A number of rows
-- may also come as an array of such texts.
function Loader:insert(table_name, n, row_of)
   local connection = self.connection
   connection:bulk_insert_init("INSERT INTO " .. table_name .. " VALUES")
   for number = 1, n do
      local rows = row_of(number)
      for _, row in ipairs(type(rows) == "table" and rows or { rows }) do
         connection:bulk_insert_next(row)
      end
   end
   connection:bulk_insert_done()
end

-- Returns filler in quotes.
function Loader:filler(shortest, longest)
   return "'" .. self.random:filler(self.ratio, shortest, longest) .. "'"
end

-- Returns the data of an item or a stock: in one of ten the word ORIGINAL stands somewhere in it.
function Loader:brand_data()
   local data = self.random:filler(self.ratio, 26, 50)
   if self.random:chance(10) then
      local at = self.random:between(0, #data - 8)
      data = data:sub(1, at) .. "ORIGINAL" .. data:sub(at + 9)
   end
   return "'" .. data .. "'"
end

-- Returns street, street, city, state and zip code as SQL.
function Loader:address()
   local random = self.random
   return ("'%s','%s','%s','%s','%s'"):format(random:text(10, 20), random:text(10, 20), random:text(10, 20),
      random:text(2), random:zip())
end

function Loader:items()
   self:insert("item", self.sizes.items, function(i)
      local random = self.random
      return ("(%d,%d,'%s',%.2f,%s)"):format(i, random:between(1, 10000), random:text(14, 24),
         random:between(100, 10000) / 100, self:brand_data())
   end)
end

function Loader:warehouse_and_districts(w)
   local random = self.random
   local ytd_of_district = self.sizes.customers * 10
   self:insert("warehouse", 1, function()
      return ("(%d,'%s',%s,%.4f,%d)"):format(w, random:text(6, 10), self:address(), random:between(0, 2000) / 10000,
         ytd_of_district * schema.DISTRICTS)
   end)
   self:insert("district", schema.DISTRICTS, function(d)
      return ("(%d,%d,'%s',%s,%.4f,%d,%d)"):format(d, w, random:text(6, 10), self:address(),
         random:between(0, 2000) / 10000, ytd_of_district, self.sizes.customers + 1)
   end)
end

function Loader:stock(w)
   self:insert("stock", self.sizes.items, function(i)
      local parts = { i, w, self.random:between(10, 100) }
      for _ = 1, schema.DISTRICTS do
         parts[#parts + 1] = self:filler(24)
      end
      parts[#parts + 1] = "0,0,0," .. self:brand_data()
      return "(" .. table.concat(parts, ",") .. ")"
   end)
end

function Loader:customers(w, d)
   local random, customers = self.random, self.sizes.customers
   self:insert("customer", customers, function(c)
      local last = c <= 1000 and Random.last_name(c - 1) or random:last_name_to_load(customers)
      return ("(%d,%d,%d,'%s','OE','%s',%s,'%s',%s,'%s',50000,%.4f,-10,10,1,0,%s)"):format(c, d, w,
         random:text(8, 16), last, self:address(), random:digits(16), self.now, random:chance(10) and "BC" or "GC",
         random:between(0, 5000) / 10000, self:filler(300, 500))
   end)
   self:insert("history", customers, function(c)
      return ("(%d,%d,%d,%d,%d,%s,10,%s)"):format(c, d, w, d, w, self.now, self:filler(12, 24))
   end)
end

-- Returns the rows of one order's lines. The oldest 70 % of the orders are delivered and were free of charge.
function Loader:lines(w, d, o, count)
   local random = self.random
   local delivered = o <= self.sizes.delivered
   local rows = {}
   for number = 1, count do
      rows[number] = ("(%d,%d,%d,%d,%d,%d,%s,5,%.2f,%s)"):format(o, d, w, number,
         random:between(1, self.sizes.items), w, delivered and self.now or "NULL",
         delivered and 0 or random:between(1, 999999) / 100, self:filler(24))
   end
   return rows
end

function Loader:orders(w, d)
   local random, delivered = self.random, self.sizes.delivered
   local customers = random:permutation(self.sizes.customers)
   local line_counts = {}
   self:insert("orders", #customers, function(o)
      line_counts[o] = random:between(5, 15)
      return ("(%d,%d,%d,%d,%s,%s,%d,1)"):format(o, d, w, customers[o], self.now,
         o <= delivered and random:between(1, 10) or "NULL", line_counts[o])
   end)
   self:insert("order_line", #customers, function(o)
      return self:lines(w, d, o, line_counts[o])
   end)
   self:insert("new_order", #customers - delivered, function(number)
      return ("(%d,%d,%d)"):format(delivered + number, d, w)
   end)
end

-- Fills one warehouse.
function load.warehouse(connection, options, w)
   local loader = new_loader(connection, options, WAREHOUSE_SEED + w)
   loader:warehouse_and_districts(w)
   loader:stock(w)
   for d = 1, schema.DISTRICTS do
      loader:customers(w, d)
      loader:orders(w, d)
   end
end

function load.items(connection, options)
   new_loader(connection, options, ITEM_SEED):items()
end

-- Waits until thread 0 has made the last table.
function load.wait_for_tables(connection)
   local last = schema.TABLES[#schema.TABLES]
   while connection:query("SHOW TABLES LIKE '" .. last .. "'").nrows == 0 do
      ffi.C.usleep(POLL_US)
   end
end

return load
