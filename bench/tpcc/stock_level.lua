-- The Stock-Level transaction (clause 2.8): how many items of the last 20 orders of a district run low.
local stock_level = { name = "stock_level", cards = 1 }

local ORDERS_LOOKED_AT = 20

function stock_level.prepare(session)
   session:prepare("count_low", "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = ? AND " ..
      "ol_d_id = ? AND ol_o_id < ? AND ol_o_id >= ? AND s_w_id = ol_w_id AND s_i_id = ol_i_id AND s_quantity < ?",
      "iiiii")
end

function stock_level.input(terminal)
   return { w = terminal:warehouse(), d = terminal:district(), threshold = terminal.random:between(10, 20) }
end

function stock_level.run(session, input)
   session:execute("begin")
   local next_o = tonumber(session:row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", input.w,
      input.d))
   session:execute("count_low", input.w, input.d, next_o, next_o - ORDERS_LOOKED_AT, input.threshold)
   session:execute("commit")
   return true
end

return stock_level
