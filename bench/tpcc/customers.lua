-- How Payment and Order-Status choose and find a customer: 60 % by last name, 40 % by number (clauses 2.5.1.2 and
-- 2.6.1.2).
local customers = {}

local BY_NAME_PERCENT = 60

-- Returns how to find a customer of that district.
function customers.choose(terminal, w, d)
   local random, n = terminal.random, terminal.sizes.customers
   if random:chance(BY_NAME_PERCENT) then
      return { w = w, d = d, last = random:last_name_to_find(n) }
   end
   return { w = w, d = d, id = random:customer_id(n) }
end

-- Returns c_id and the values of `columns`. Of several customers with the name it is the one in the middle by first
-- name, the lower of two.
function customers.find(session, chosen, columns, suffix)
   if chosen.id then
      return session:row("SELECT c_id, %s FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d%s", columns,
         chosen.w, chosen.d, chosen.id, suffix)
   end
   local rows = session:rows(
      "SELECT c_id, %s FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first%s", columns,
      chosen.w, chosen.d, chosen.last, suffix)
   assert(#rows > 0, "no customer is called " .. chosen.last)
   return unpack(rows[math.ceil(#rows / 2)])
end

return customers
