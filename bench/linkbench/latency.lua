-- How long requests of each type took: one histogram per thread and type, written as text when the thread ends.
--
-- A bucket is 2 % wide, so percentiles are exact to 2 %; the longest request is kept exactly. bench/linkbench.py adds
-- the threads' files up. Each line is: type, requests, longest in microseconds, then bucket:count pairs.
local ffi = require("ffi")

ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } linkbench_time;
int clock_gettime(int clock, linkbench_time *time);
]]

local MONOTONIC = 1
local BUCKETS = 1200 -- the last one begins at 1.02 ^ 1199 microseconds: beyond an hour
local BUCKETS_PER_E = 1 / math.log(1.02)

local latency = {}
local clock = ffi.new("linkbench_time")

function latency.now_us()
  ffi.C.clock_gettime(MONOTONIC, clock)
  return tonumber(clock.seconds) * 1e6 + tonumber(clock.nanoseconds) / 1e3
end

function latency.new(types)
  local self = setmetatable({types = types, histograms = {}, requests = {}, longest = {}}, {__index = latency})
  for type = 1, #types do
    self.histograms[type] = ffi.new("uint32_t[?]", BUCKETS)
    self.requests[type], self.longest[type] = 0, 0
  end
  return self
end

function latency:add(type, microseconds)
  local bucket = microseconds > 1 and math.floor(math.log(microseconds) * BUCKETS_PER_E) or 0
  bucket = math.min(bucket, BUCKETS - 1)
  self.histograms[type][bucket] = self.histograms[type][bucket] + 1
  self.requests[type] = self.requests[type] + 1
  if microseconds > self.longest[type] then self.longest[type] = microseconds end
end

function latency:write(path)
  local file = assert(io.open(path, "w"))
  for type, name in ipairs(self.types) do
    local parts = {string.format("%s %d %.0f", name, self.requests[type], self.longest[type])}
    for bucket = 0, BUCKETS - 1 do
      local count = self.histograms[type][bucket]
      if count > 0 then parts[#parts + 1] = bucket .. ":" .. count end
    end
    file:write(table.concat(parts, " "), "\n")
  end
  file:close()
end

return latency
