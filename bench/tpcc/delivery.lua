-- The Delivery transaction (clause 2.7): the oldest new order of each district is delivered. All ten are one
-- transaction, which the client waits for; the specification also allows a queue in the background.
local schema = require("schema")

local delivery = { name = "delivery", cards = 1 }

function delivery.prepare(session)
   session:prepare("delete_new_order", "DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", "iii")
   session:prepare("set_carrier", "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
      "iiii")
   session:prepare("set_delivered", "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? " ..
      "AND ol_o_id = ?", "iii")
   session:prepare("charge_customer", "UPDATE customer SET c_balance = c_balance + ? / 100, " ..
      "c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?", "iiii")
end

function delivery.input(terminal)
   return { w = terminal:warehouse(), carrier = terminal.random:between(1, 10) }
end

-- Delivers the oldest new order of a district, if there is one.
local function deliver(session, w, d, carrier)
   local o = session:row("SELECT no_o_id FROM new_order WHERE no_w_id = %d AND no_d_id = %d ORDER BY no_o_id " ..
      "LIMIT 1 FOR UPDATE", w, d)
   if not o then
      return
   end
   session:execute("delete_new_order", w, d, o)
   local c = session:row("SELECT o_c_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %d FOR UPDATE", w,
      d, o)
   session:execute("set_carrier", carrier, w, d, o)
   local amount = session:row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND " ..
      "ol_o_id = %d FOR UPDATE", w, d, o)
   session:execute("set_delivered", w, d, o)
   session:execute("charge_customer", math.floor(tonumber(amount) * 100 + 0.5), w, d, c)
end

function delivery.run(session, input)
   session:execute("begin")
   for d = 1, schema.DISTRICTS do
      deliver(session, input.w, d, input.carrier)
   end
   session:execute("commit")
   return true
end

return delivery
