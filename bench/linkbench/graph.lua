-- The social graph: how many links a node has, where they lead, which nodes are asked for, what a row carries.
--
-- Nothing here is stored. Degree and targets of a node are functions of its id, so that the requests of a run know
-- which links the load made. Out-degrees and popularity follow power laws, each through its own permutation of the
-- ids, so that the two are independent of each other (but for `correlation`) and of the order of the ids.
-- The paper (Armstrong et al., SIGMOD 2013) tells the shapes; the constants are ours.
-- Invariants:
-- 1. id = 1..nodes; for one node and type, different numbers of a link lead to different nodes.
-- 2. All products of ids stay below 2^53, which numbers of Lua hold exactly.
local ffi = require("ffi")

local graph = {NODES_MIN = 1000, NODES_MAX = 90000000}

-- Primes above which no other choice is needed: they are coprime to the number of nodes unless that is a multiple.
local DEGREE_PRIMES = {15485863, 15485867}
local POPULARITY_PRIMES = {32452843, 32452867}
local TARGET_PRIMES = {7368787, 7368791}

-- A node of degree rank r (0..nodes-1) has floor(0.9 * (nodes / (r + 1)) ^ 0.8) links: 3.7 on average, none for one
-- node in eight, 40 % of all at 1 % of the nodes. The tail of the degrees' distribution falls with the exponent 2.25.
local DEGREE_FACTOR, DEGREE_EXPONENT = 0.9, 0.8

local FILLER = string.rep("x", 65536)
local POOL_BYTES = 1048576

local function coprime(candidates, nodes)
  return nodes % candidates[1] ~= 0 and candidates[1] or candidates[2]
end

-- Returns i with (i * factor) % modulus == 1.
local function inverse(factor, modulus)
  local a, b, x, y = factor % modulus, modulus, 1, 0
  while a > 1 do
    local quotient = math.floor(a / b)
    a, b = b, a % b
    x, y = y, x - quotient * y
  end
  return x % modulus
end

-- options: nodes, link_types, skew (exponent of popularity, 0..0.99), correlation and compressible in percent.
function graph.new(options)
  local self = setmetatable({}, {__index = graph})
  self.nodes, self.link_types = options.nodes, options.link_types
  assert(self.nodes >= graph.NODES_MIN and self.nodes <= graph.NODES_MAX, "--nodes: from 1000 to 90000000")
  assert(options.skew >= 0 and options.skew < 1, "--skew: from 0 to 0.99")
  self.popularity_power = 1 / (1 - options.skew)
  self.correlation = options.correlation / 100
  self.random_share = 1 - options.compressible / 100
  self.degree_prime = coprime(DEGREE_PRIMES, self.nodes)
  self.popularity_prime = coprime(POPULARITY_PRIMES, self.nodes)
  self.target_prime = coprime(TARGET_PRIMES, self.nodes)
  self.degree_inverse = inverse(self.degree_prime, self.nodes)
  return self
end

-- How many links of one type (1..link_types) the load gives to a node.
function graph:degree(id, link_type)
  local rank = (id * self.degree_prime) % self.nodes
  local all = math.floor(DEGREE_FACTOR * (self.nodes / (rank + 1)) ^ DEGREE_EXPONENT)
  return math.floor((all + self.link_types - link_type) / self.link_types)
end

-- Where the link of that number (0, 1, ...) leads. The load makes the numbers below the degree.
function graph:target(id, link_type, number)
  local step = (number * self.link_types + link_type) % self.nodes
  return (id + step * self.target_prime) % self.nodes + 1
end

-- A node by popularity.
function graph:popular_node()
  local rank = math.floor(self.nodes * sysbench.rand.uniform_double() ^ self.popularity_power)
  return (rank * self.popularity_prime) % self.nodes + 1
end

-- The node and type whose links a request is about: by popularity, at times by degree.
function graph:popular_list()
  local link_type = sysbench.rand.uniform(1, self.link_types)
  if sysbench.rand.uniform_double() >= self.correlation then return self:popular_node(), link_type end
  local rank = math.floor(self.nodes * sysbench.rand.uniform_double() ^ self.popularity_power)
  local id = (rank * self.degree_inverse) % self.nodes
  return id == 0 and self.nodes or id, link_type
end

-- The number of a link that the load made (0 where it made none).
function graph:loaded_link(id, link_type)
  local degree = self:degree(id, link_type)
  return degree > 1 and sysbench.rand.uniform(0, degree - 1) or 0
end

-- The number of a link that the load did not make; earlier requests may have.
function graph:new_link(id, link_type)
  local degree = self:degree(id, link_type)
  return degree + sysbench.rand.uniform(0, 4 + math.floor(degree / 2))
end

-- Bytes that need no escape in a quoted string of SQL and do not compress: 222 different ones.
local function random_pool()
  local alphabet = {}
  for byte = 32, 255 do
    if byte ~= 39 and byte ~= 92 then alphabet[#alphabet + 1] = byte end
  end
  local pool = ffi.new("uint8_t[?]", POOL_BYTES)
  for i = 0, POOL_BYTES - 1 do pool[i] = alphabet[sysbench.rand.uniform(1, #alphabet)] end
  return ffi.string(pool, POOL_BYTES)
end

-- A value of that length, of which `compressible` percent compress to nothing.
function graph:value(bytes)
  self.pool = self.pool or random_pool()
  local random_bytes = math.ceil(bytes * self.random_share)
  local from = sysbench.rand.uniform(1, POOL_BYTES - random_bytes)
  return self.pool:sub(from, from + random_bytes - 1) .. FILLER:sub(1, bytes - random_bytes)
end

-- Lengths are log-normal: most rows are small, few are large.
local function log_normal(median, most)
  local u, v = 1 - sysbench.rand.uniform_double(), sysbench.rand.uniform_double()
  local deviation = math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v)
  return math.min(most, math.floor(median * math.exp(deviation)))
end

function graph:node_value() return self:value(log_normal(128, 32768)) end

function graph:link_value() return self:value(log_normal(8, 255)) end

return graph
