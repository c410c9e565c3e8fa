-- What a client chooses from: its random numbers, warehouses, and the deck of clause 5.2.4.2 that gives the mix.
--
-- A client is not bound to one warehouse: each transaction has one of all of them. Clients are few and do not think, so
-- bound ones would leave most of the data alone.
local Random = require("random")
local schema = require("schema")

local Terminal = {}
Terminal.__index = Terminal

-- `kinds`: the transactions, each with the number of its cards in a deck.
function Terminal.new(options, seed, kinds)
   local deck = {}
   for position, kind in ipairs(kinds) do
      for _ = 1, kind.cards do
         deck[#deck + 1] = position
      end
   end
   return setmetatable({
      random = Random.new(seed),
      sizes = schema.sizes(options),
      deck = deck,
      left = 0,
   }, Terminal)
end

-- Returns the number of the next transaction's kind. The deck is shuffled again when it is used up.
function Terminal:next_kind()
   if self.left == 0 then
      self.random:shuffle(self.deck)
      self.left = #self.deck
   end
   self.left = self.left - 1
   return self.deck[self.left + 1]
end

function Terminal:warehouse()
   return self.random:between(1, self.sizes.warehouses)
end

function Terminal:district()
   return self.random:between(1, schema.DISTRICTS)
end

-- Returns a warehouse that is not w, and w when there is no other.
function Terminal:other_warehouse(w)
   if self.sizes.warehouses == 1 then
      return w
   end
   local other = self.random:between(1, self.sizes.warehouses - 1)
   return other < w and other or other + 1
end

return Terminal
