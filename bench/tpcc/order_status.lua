-- The Order-Status transaction (clause 2.6): the last order of a customer and its lines.
local customers = require("customers")

local order_status = { name = "order_status", cards = 1 }

function order_status.prepare(session)
   session:prepare("show_lines", "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d " ..
      "FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", "iii")
end

function order_status.input(terminal)
   return { customer = customers.choose(terminal, terminal:warehouse(), terminal:district()) }
end

function order_status.run(session, input)
   local chosen = input.customer
   session:execute("begin")
   local c = customers.find(session, chosen, "c_balance, c_first, c_middle, c_last", "")
   local o = session:row("SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND " ..
      "o_c_id = %d ORDER BY o_id DESC LIMIT 1", chosen.w, chosen.d, c)
   session:execute("show_lines", chosen.w, chosen.d, o)
   session:execute("commit")
   return true
end

return order_status
