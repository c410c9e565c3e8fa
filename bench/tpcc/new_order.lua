-- The New-Order transaction (clause 2.4): one order of 5 to 15 items. One in a hundred has an item that does not exist
-- and is rolled back after all the other work.
local new_order = { name = "new_order", cards = 10 }

local ROLLED_BACK_PERCENT = 1
local REMOTE_ITEM_PERCENT = 1
local NO_SUCH_ITEM = 0

function new_order.prepare(session)
   session:prepare("next_order", "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?",
      "ii")
   session:prepare("insert_order", "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, " ..
      "o_all_local) VALUES (?, ?, ?, ?, NOW(), ?, ?)", "iiiiii")
   session:prepare("insert_new_order", "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)", "iii")
   session:prepare("take_stock", "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, " ..
      "s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?", "iiiii")
   session:prepare("insert_line", "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, " ..
      "ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ? / 100, ?)", "iiiiiiiis")
end

-- Returns the items ordered, no item twice, and whether all of them come from the home warehouse.
local function choose_items(terminal, w)
   local random = terminal.random
   local items, seen, all_local = {}, {}, 1
   local count = random:between(5, 15)
   while #items < count do
      local id = random:item_id(terminal.sizes.items)
      if not seen[id] then
         seen[id] = true
         local supply_w = random:chance(REMOTE_ITEM_PERCENT) and terminal:other_warehouse(w) or w
         all_local = supply_w == w and all_local or 0
         items[#items + 1] = { id = id, supply_w = supply_w, quantity = random:between(1, 10) }
      end
   end
   return items, all_local
end

function new_order.input(terminal)
   local random = terminal.random
   local w = terminal:warehouse()
   local items, all_local = choose_items(terminal, w)
   if random:chance(ROLLED_BACK_PERCENT) then
      items[#items].id = NO_SUCH_ITEM
   end
   return {
      w = w,
      d = terminal:district(),
      c = random:customer_id(terminal.sizes.customers),
      items = items,
      all_local = all_local,
   }
end

-- Returns what is left in stock after the order, as clause 2.4.2.2 refills it.
local function quantity_left(in_stock, ordered)
   local left = in_stock - ordered
   return left >= 10 and left or left + 91
end

-- Takes one item from stock and writes its line; returns its amount in cents, nothing when there is no such item.
local function order_item(session, input, o, number, item)
   local price = session:row("SELECT i_price, i_name, i_data FROM item WHERE i_id = %d", item.id)
   if not price then
      return
   end
   local in_stock, dist_info = session:row(
      "SELECT s_quantity, s_dist_%02d, s_data FROM stock WHERE s_w_id = %d AND s_i_id = %d FOR UPDATE", input.d,
      item.supply_w, item.id)
   session:execute("take_stock", quantity_left(tonumber(in_stock), item.quantity), item.quantity,
      item.supply_w == input.w and 0 or 1, item.supply_w, item.id)
   local amount = math.floor(tonumber(price) * 100 + 0.5) * item.quantity
   session:execute("insert_line", o, input.d, input.w, number, item.id, item.supply_w, item.quantity, amount, dist_info)
   return amount
end

-- Returns true when the order was committed, false when it was rolled back because of its unused item.
function new_order.run(session, input)
   local w, d = input.w, input.d
   session:execute("begin")
   local w_tax = session:row("SELECT w_tax FROM warehouse WHERE w_id = %d", w)
   local discount = session:row("SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = %d AND " ..
      "c_d_id = %d AND c_id = %d", w, d, input.c)
   local d_tax, o = session:row(
      "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d FOR UPDATE", w, d)
   session:execute("next_order", w, d)
   session:execute("insert_order", o, d, w, input.c, #input.items, input.all_local)
   session:execute("insert_new_order", o, d, w)
   local total = 0
   for number, item in ipairs(input.items) do
      local amount = order_item(session, input, o, number, item)
      if not amount then
         session:execute("rollback")
         return false
      end
      total = total + amount
   end
   input.total = total * (1 - tonumber(discount)) * (1 + tonumber(w_tax) + tonumber(d_tax))
   session:execute("commit")
   return true
end

return new_order
