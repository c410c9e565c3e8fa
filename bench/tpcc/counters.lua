-- What the clients did: transactions, their latencies, conflicts, and new orders by second.
--
-- 1. sysbench runs each thread in a Lua of its own. So all counters lie in one piece of memory, whose address is in the
--    environment of the process; each thread writes to its own slot and no slot is ever locked.
-- 2. A latency holds all attempts of a transaction. Classes are 2 % wide, so a percentile is right within 2 %.
local ffi = require("ffi")

local THREADS_MAX, SECONDS_MAX, CLASSES, KINDS = 512, 14400, 1024, 5
local CLASS_WIDTH = math.log(1.02)
local ADDRESS_VARIABLE = "TPCC_COUNTERS"
local CLOCK_MONOTONIC = 1

-- Conflicts: deadlock (1213), lock wait timeout (1205), record changed since it was read (1020), any other.
local CONFLICT_NAMES = { [1213] = "deadlocks", [1205] = "lock_wait_timeouts", [1020] = "changed_records" }
local CONFLICT_ORDER = { "deadlocks", "lock_wait_timeouts", "changed_records", "other" }

ffi.cdef(([[
typedef struct { long seconds; long nanoseconds; } tpcc_time;
typedef struct {
   double finished_us;
   uint32_t rolled_back;
   uint32_t conflicts[4];
   uint32_t done[%d];
   double sum_us[%d], max_us[%d];
   uint32_t latencies[%d][%d];
   uint32_t new_orders_in[%d];
} tpcc_slot;
typedef struct { double started_us; tpcc_slot slots[%d]; } tpcc_counters;
int clock_gettime(int clock, tpcc_time *now);
void *calloc(size_t count, size_t size);
int setenv(const char *name, const char *value, int overwrite);
]]):format(KINDS, KINDS, KINDS, KINDS, CLASSES, SECONDS_MAX, THREADS_MAX))

local counters = {}
local moment = ffi.new("tpcc_time")

function counters.now_us()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, moment)
   return tonumber(moment.seconds) * 1e6 + tonumber(moment.nanoseconds) / 1e3
end

-- Makes the memory, once in a process and before its threads start. Untouched slots cost no memory.
function counters.create()
   local memory = ffi.C.calloc(1, ffi.sizeof("tpcc_counters"))
   assert(memory ~= nil, "no memory for the counters")
   ffi.C.setenv(ADDRESS_VARIABLE, ("%.0f"):format(tonumber(ffi.cast("uintptr_t", memory))), 1)
end

local function shared()
   return ffi.cast("tpcc_counters *", ffi.cast("uintptr_t", tonumber(os.getenv(ADDRESS_VARIABLE))))
end

local Slot = {}
Slot.__index = Slot

-- Returns the counters of a thread.
function counters.of_thread(thread)
   assert(thread < THREADS_MAX, "too many threads")
   local all = shared()
   return setmetatable({ all = all, slot = all.slots[thread] }, Slot)
end

function Slot:conflict(errno)
   for position, name in ipairs(CONFLICT_ORDER) do
      if name == (CONFLICT_NAMES[errno] or "other") then
         self.slot.conflicts[position - 1] = self.slot.conflicts[position - 1] + 1
      end
   end
end

-- Counts a transaction that started and finished at these times. Kind 1 is New-Order.
function Slot:finished(kind, started_us, finished_us, committed)
   local slot, index, spent_us = self.slot, kind - 1, finished_us - started_us
   if self.all.started_us == 0 then
      self.all.started_us = started_us
   end
   slot.finished_us = finished_us
   slot.sum_us[index] = slot.sum_us[index] + spent_us
   slot.max_us[index] = math.max(slot.max_us[index], spent_us)
   local class = math.min(math.floor(math.log(math.max(spent_us, 1)) / CLASS_WIDTH), CLASSES - 1)
   slot.latencies[index][class] = slot.latencies[index][class] + 1
   if not committed then
      slot.rolled_back = slot.rolled_back + 1
      return
   end
   slot.done[index] = slot.done[index] + 1
   if kind == 1 then
      local second = math.max(math.floor((finished_us - self.all.started_us) / 1e6), 0)
      second = math.min(second, SECONDS_MAX - 1)
      slot.new_orders_in[second] = slot.new_orders_in[second] + 1
   end
end

local function sum_of(all, value_of)
   local sum = 0
   for thread = 0, THREADS_MAX - 1 do
      if all.slots[thread].finished_us > 0 then
         sum = sum + value_of(all.slots[thread])
      end
   end
   return sum
end

-- Returns the latencies of one kind in milliseconds: the upper edge of a class, the longest one itself.
local function latencies_of(all, index)
   local longest, classes, total = 0, {}, 0
   for thread = 0, THREADS_MAX - 1 do
      longest = math.max(longest, all.slots[thread].max_us[index])
   end
   for class = 0, CLASSES - 1 do
      classes[class] = sum_of(all, function(slot) return slot.latencies[index][class] end)
      total = total + classes[class]
   end
   local found = { max = longest / 1000 }
   for name, share in pairs({ p50 = 0.5, p95 = 0.95, p99 = 0.99, ["p99.9"] = 0.999 }) do
      local class, seen = 0, classes[0]
      while seen < total * share and class < CLASSES - 1 do
         class = class + 1
         seen = seen + classes[class]
      end
      found[name] = math.min(math.exp((class + 1) * CLASS_WIDTH), longest) / 1000
   end
   found.mean = sum_of(all, function(slot) return slot.sum_us[index] end) / math.max(total, 1) / 1000
   return found
end

local function new_orders_by_second(all, seconds)
   local series = {}
   for second = 0, math.min(math.ceil(seconds), SECONDS_MAX) - 1 do
      series[second + 1] = sum_of(all, function(slot) return slot.new_orders_in[second] end)
   end
   return series
end

-- Returns all that was counted, by the names in `kinds`. Requires: no thread works any more.
function counters.totals(kinds)
   local all = shared()
   local finished_us = 0
   for thread = 0, THREADS_MAX - 1 do
      finished_us = math.max(finished_us, all.slots[thread].finished_us)
   end
   local seconds = math.max(finished_us - all.started_us, 1) / 1e6
   local totals = { seconds = seconds, conflicts = {}, transactions = {}, latency_ms = {} }
   totals.rolled_back = sum_of(all, function(slot) return slot.rolled_back end)
   for position, name in ipairs(CONFLICT_ORDER) do
      totals.conflicts[name] = sum_of(all, function(slot) return slot.conflicts[position - 1] end)
   end
   for position, kind in ipairs(kinds) do
      totals.transactions[kind.name] = sum_of(all, function(slot) return slot.done[position - 1] end)
      totals.latency_ms[kind.name] = latencies_of(all, position - 1)
   end
   totals.new_orders_a_minute = totals.transactions[kinds[1].name] / seconds * 60
   totals.new_orders_by_second = new_orders_by_second(all, seconds)
   return totals
end

return counters
