-- Reads of sbtest1 by uniform or Zipf-distributed keys, points and short ranges; for bench/cache.py.
--
-- sysbench 1.0 has no Zipf distribution. This is the usual generator (Gray et al., "Quickly Generating Billion-Record
-- Synthetic Databases"); ranks are spread over the table by a multiplication, so that hot rows share no blocks.

if sysbench.cmdline.command == nil then
   error("Command is required: run")
end

sysbench.cmdline.options = {
   table_size = {"Number of rows", 10000},
   keys = {"Distribution of the keys: uniform or zipf", "uniform"},
   theta = {"Parameter of the Zipf distribution", "0.99"},
   range_size = {"Rows of a statement; 1: a point", 1}
}

local SPREAD = 2654435761  -- a prime: a permutation of the ranks, as long as it does not divide the table's size

local zipf = {}

local function zipf_init(n, theta)
   local zeta = 0
   for i = 1, n do
      zeta = zeta + 1 / i ^ theta
   end
   local zeta2 = 1 + 0.5 ^ theta
   zipf.n, zipf.theta, zipf.zeta = n, theta, zeta
   zipf.alpha = 1 / (1 - theta)
   zipf.eta = (1 - (2 / n) ^ (1 - theta)) / (1 - zeta2 / zeta)
end

local function zipf_rank()
   local u = sysbench.rand.uniform_double()
   local uz = u * zipf.zeta
   if uz < 1 then
      return 0
   elseif uz < 1 + 0.5 ^ zipf.theta then
      return 1
   end
   return math.floor(zipf.n * (zipf.eta * u - zipf.eta + 1) ^ zipf.alpha)
end

local function key()
   local n = sysbench.opt.table_size
   if sysbench.opt.keys == "zipf" then
      return zipf_rank() % n * (SPREAD % n) % n + 1
   end
   return sysbench.rand.uniform(1, n)
end

function thread_init()
   drv = sysbench.sql.driver()
   con = drv:connect()
   if sysbench.opt.keys == "zipf" then
      zipf_init(sysbench.opt.table_size, tonumber(sysbench.opt.theta))
   end
   local point = sysbench.opt.range_size == 1
   stmt = con:prepare(point and "SELECT c FROM sbtest1 WHERE id = ?" or
                         "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?")
   params = {stmt:bind_create(sysbench.sql.type.INT)}
   if not point then
      params[2] = stmt:bind_create(sysbench.sql.type.INT)
   end
   stmt:bind_param(unpack(params))
end

function event()
   local id = key()
   params[1]:set(id)
   if params[2] then
      params[2]:set(id + sysbench.opt.range_size - 1)
   end
   stmt:execute()
end

function thread_done()
   stmt:close()
   con:disconnect()
end
