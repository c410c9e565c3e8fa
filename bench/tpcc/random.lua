-- Random numbers, names and text as clauses 2.1.6 and 4.3.2 of the TPC-C specification want them.
--
-- 1. A generator is a pure function of its seed. So each engine gets the same rows, whatever the number of threads.
-- 2. The constants of NURand differ between load and run by what clause 2.1.6.1 allows for last names.
local bit = require("bit")
local ffi = require("ffi")

local bxor, lshift, rshift, band, tobit = bit.bxor, bit.lshift, bit.rshift, bit.band, bit.tobit
local floor = math.floor

local TWO_TO_32 = 4294967296
local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -"
local REPEATED = ("the part that repeats in every value, "):rep(16)
local SYLLABLES = { [0] = "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING" }
local TEXT_LENGTH_MAX = 512
local C_LAST_LOAD, C_LAST_RUN, C_CUSTOMER, C_ITEM = 157, 223, 259, 7911

local letters = ffi.new("uint8_t[64]", { ALPHABET:byte(1, 64) })
local buffer = ffi.new("uint8_t[?]", TEXT_LENGTH_MAX)

local Random = {}
Random.__index = Random

-- Makes a generator. Each field of the state comes from one step of a linear congruential generator.
function Random.new(seed)
   local state = {}
   for _, name in ipairs({ "x", "y", "z", "w" }) do
      seed = (seed * 1664525 + 1013904223) % TWO_TO_32
      state[name] = tobit(bxor(tobit(seed), rshift(tobit(seed), 15)))
   end
   local generator = setmetatable(state, Random)
   for _ = 1, 16 do
      generator:bits()
   end
   return generator
end

-- Returns 32 random bits (Marsaglia's xorshift128).
function Random:bits()
   local t = bxor(self.x, lshift(self.x, 11))
   self.x, self.y, self.z = self.y, self.z, self.w
   self.w = bxor(self.w, rshift(self.w, 19), t, rshift(t, 8))
   return self.w
end

-- Returns an integer of [low, high], all with the same probability.
function Random:between(low, high)
   return low + floor((self:bits() % TWO_TO_32) / TWO_TO_32 * (high - low + 1))
end

function Random:chance(percent)
   return self:between(1, 100) <= percent
end

-- NURand(a, low, high) with its constant c.
function Random:non_uniform(a, low, high, c)
   local either = bit.bor(self:between(0, a), self:between(low, high))
   return (either + c) % (high - low + 1) + low
end

function Random:customer_id(customers)
   return self:non_uniform(1023, 1, customers, C_CUSTOMER)
end

function Random:item_id(items)
   return self:non_uniform(8191, 1, items, C_ITEM)
end

-- Returns the last name of a number from 0 to 999.
function Random.last_name(number)
   return SYLLABLES[floor(number / 100)] .. SYLLABLES[floor(number / 10) % 10] .. SYLLABLES[number % 10]
end

-- Returns the highest number a last name has when a district has that many customers.
local function highest_name(customers)
   return math.min(999, customers - 1)
end

function Random:last_name_to_load(customers)
   return Random.last_name(self:non_uniform(255, 0, highest_name(customers), C_LAST_LOAD))
end

function Random:last_name_to_find(customers)
   return Random.last_name(self:non_uniform(255, 0, highest_name(customers), C_LAST_RUN))
end

-- Returns text of random letters; `shortest` to `longest` characters. One call of bits() gives five letters.
function Random:text(shortest, longest)
   local length = longest and self:between(shortest, longest) or shortest
   local at = 0
   while at < length do
      local bits = self:bits()
      for position = at, math.min(at + 4, length - 1) do
         buffer[position] = letters[band(bits, 63)]
         bits = rshift(bits, 6)
      end
      at = at + 5
   end
   return ffi.string(buffer, length)
end

-- Returns text of which one part in `ratio` is random and the rest is the same everywhere.
function Random:filler(ratio, shortest, longest)
   local length = longest and self:between(shortest, longest) or shortest
   local random_length = math.ceil(length / ratio)
   return self:text(random_length) .. REPEATED:sub(1, length - random_length)
end

-- Returns digits.
function Random:digits(length)
   local digits = {}
   for position = 1, length do
      digits[position] = self:between(0, 9)
   end
   return table.concat(digits)
end

function Random:zip()
   return self:digits(4) .. "11111"
end

-- Shuffles an array in place.
function Random:shuffle(array)
   for last = #array, 2, -1 do
      local other = self:between(1, last)
      array[last], array[other] = array[other], array[last]
   end
   return array
end

-- Returns 1 to n in random order.
function Random:permutation(n)
   local numbers = {}
   for number = 1, n do
      numbers[number] = number
   end
   return self:shuffle(numbers)
end

return Random
